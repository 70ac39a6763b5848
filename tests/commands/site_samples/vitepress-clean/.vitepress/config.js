export default {
  srcDir: 'content',
  cleanUrls: true,
}
