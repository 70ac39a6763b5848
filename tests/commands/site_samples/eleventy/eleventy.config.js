module.exports = function (eleventyConfig) {
  eleventyConfig.addPassthroughCopy("src/files");
  eleventyConfig.ignores.add("src/README.md");
  return { dir: { input: "src", output: "_site" }, pathPrefix: "/" };
};
