// Text of a chunk as nodes: paragraphs, lists, code, tables, headings. Every node knows where its text begins, so that
// the words that the server found (spans in code points) are marked in whatever holds them.
function units(text, spans = []) {
  if (!/[\ud800-\udfff]/.test(text)) return spans;
  const at = [];
  let place = 0;
  for (const character of text) { at.push(place); place += character.length }
  at.push(place);
  return spans.map(([start, end]) => [at[start] ?? place, at[end] ?? place]);
}

const ITEM = /^(\s*)([-*+•]|\d{1,3}[.)])\s+/, HEADING = /^\s{0,3}#{1,6}\s+/, FENCE = /^\s*(```|~~~)/, ROW = /^\s*\|.*\|\s*$/;

function blocks(text) {
  const found = [];
  let open = null, fence = null, start = 0;
  for (const line of text.split("\n")) {
    const end = start + line.length;
    const add = kind => { open = {kind, start, end, lines: [[start, end]]}; found.push(open) };
    const grow = () => { open.end = end; open.lines.push([start, end]) };
    if (fence !== null) {
      if (line.trim().startsWith(fence)) fence = open = null;
      else if (open) grow();
      else add("code");
    } else if (FENCE.test(line)) { fence = line.match(FENCE)[1]; open = null }
    else if (!line.trim()) open = null;
    else if (HEADING.test(line)) { add("heading"); open = null }
    else if (ROW.test(line)) open?.kind === "table" ? grow() : add("table");
    else if (ITEM.test(line)) open?.kind === "list" ? grow() : add("list");
    else if (open?.kind === "list") { open.end = open.lines.at(-1)[1] = end }
    else if (/^(\t| {4})/.test(line) && (!open || open.kind === "code")) open ? grow() : add("code");
    else if (open?.kind === "text") grow();
    else add("text");
    start = end + 1;
  }
  return found;
}

function marked(text, start, end, spans) {
  const nodes = [];
  for (const [from, to] of spans) {
    if (to <= start || from >= end) continue;
    const low = Math.max(start, from), high = Math.min(end, to);
    nodes.push(text.slice(start, low), make("mark", null, text.slice(low, high)));
    start = high;
  }
  return [...nodes, text.slice(start, end)].filter(Boolean);
}

const INLINE = /(`+)([^`]+)\1|\*\*(?=\S)([^*\n]+)\*\*|!?\[([^\]\n]*)\]\(([^)\s]*)[^)\n]*\)/g;

function inline(text, start, end, spans) {
  const nodes = [], slice = text.slice(start, end);
  let last = start;
  for (const found of slice.matchAll(INLINE)) {
    const at = start + found.index, inner = found[2] ?? found[3] ?? found[4];
    const from = at + found[0].indexOf(inner, found[2] ? found[1].length : 0), content = marked(text, from, from + inner.length, spans);
    nodes.push(...marked(text, last, at, spans));
    const link = found[5] && web(found[5]);
    if (found[2]) nodes.push(make("code", {dir: "ltr"}, content));
    else if (found[3]) nodes.push(make("strong", null, content));
    else nodes.push(...link ? [make("a", {href: link.href, rel: "noopener noreferrer"}, content.length ? content : link.host)] : content);
    last = at + found[0].length;
  }
  return [...nodes, ...marked(text, last, end, spans)];
}

function drawn(text, {kind, start, end, lines}, spans) {
  if (kind === "code") return pane("Code", "pre", make("code", null, marked(text, start, end, spans)));
  if (kind === "list") {
    const ordered = /^\s*\d/.test(text.slice(start, end));
    return make(ordered ? "ol" : "ul", {dir: "auto", start: ordered ? parseInt(text.slice(start, end)) : null}, lines.map(([from, to]) =>
      make("li", null, inline(text, from + text.slice(from, to).match(ITEM)?.[0].length, to, spans))));
  }
  if (kind === "table") return table(text, lines, spans);
  if (kind === "heading") start += text.slice(start, end).match(HEADING)[0].length;
  const made = make("p", null, inline(text, start, end, spans));
  return kind === "heading" ? make("p", null, make("strong", null, ...made.childNodes)) : made;
}

function table(text, lines, spans) {
  const made = make("table"), ruled = lines.length > 1 && /^[\s|:-]+$/.test(text.slice(...lines[1]));
  lines.forEach(([start, end], number) => {
    if (ruled && number === 1) return;
    const row = make("tr"), line = text.slice(start, end);
    let from = line.indexOf("|") + 1;
    for (const found of line.slice(from).matchAll(/((?:[^|\\]|\\.)*)\|/g)) {
      const at = start + from + found.index, cell = found[1].trim(), begin = at + found[1].indexOf(cell);
      row.append(make(ruled && !number ? "th" : "td", null, inline(text, begin, begin + cell.length, spans)));
    }
    made.append(row);
  });
  return pane("Table", "div", made);
}

const whole = (text, spans) => blocks(text).map(one => drawn(text, one, spans));

// Of a long text what is around the best sentence: whole items, rows and lines of code, sentences cut between words.
const EXCERPT = 300, MOST_LINES = 7, MOST_BLOCKS = 4;

function excerpt(text, spans, snippets) {
  const all = blocks(text), [from = 0] = snippets[0] ?? [];
  let number = Math.max(0, all.findIndex(one => one.end > from)), left = EXCERPT;
  while (number < all.length - 1 && all[number].kind === "heading") number++;
  const shown = [];
  if (number) shown.push("… ");
  for (const one of all.slice(number)) {
    if (left < 80 || shown.length > MOST_BLOCKS || one.kind === "heading" && shown.some(node => node.tagName)) break;
    const cut = cropped(text, one, shown.some(node => node.tagName) ? one.start : from, left);
    shown.push(drawn(text, cut, spans));
    left -= cut.end - cut.start;
    if (cut.kind === "text" && cut.end < one.end) shown.at(-1).append(" …");
    if (cut.kind === "text" && cut.start > one.start) shown.at(-1).prepend("… ");
  }
  return shown.filter(one => one !== "… ");
}

function cropped(text, block, from, room) {
  if (block.kind !== "text") {
    const at = Math.max(0, block.lines.findIndex(([, end]) => end > from));
    const head = block.kind === "table" ? block.lines.slice(0, 2) : [];
    const first = Math.max(head.length, Math.min(at - 2, block.lines.length - MOST_LINES));
    const lines = [...head, ...block.lines.slice(first, first + MOST_LINES)];
    return {...block, lines, start: block.kind === "table" ? block.start : lines[0][0], end: lines.at(-1)[1]};
  }
  if (block.end - block.start <= room + 60) return block;
  const start = from - block.start < 90 ? block.start : from, edge = text.lastIndexOf(" ", start + room);
  return {...block, start, end: start + room >= block.end ? block.end : edge > start ? edge : start + room};
}
