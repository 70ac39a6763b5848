// The search of the site runs in a Worker, which browsers refuse to a page that is opened from the disk. There a hidden
// frame takes its place: the script of the worker finds `postMessage` and the event `message`, as it does in a Worker.
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const {contentWindow: inner, contentDocument: page} = this.frame;
      inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}));
      const script = page.createElement("script");
      script.src = new URL(url, location);
      this.ready = new Promise((done, failed) => { script.onload = done; script.onerror = failed; });
      page.body.append(script);
    }

    set onmessage(listener) { this.addEventListener("message", listener); }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data})));
    }

    terminate() { this.frame.remove(); }
  };
}
