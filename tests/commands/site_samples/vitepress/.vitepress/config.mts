import { defineConfig } from 'vitepress'

export default defineConfig({
  title: 'Mill',
  base: '/docs/',
  srcExclude: ['**/parts/**', 'TODO.md'],
  sitemap: { hostname: 'https://mill.example.org/docs/' },
  rewrites: {
    'packages/:name/src/(.*)': ':name/(.*)',
    'old/page.md': 'new/page.md',
  },
  ignoreDeadLinks: true,
  themeConfig: { nav: [{ text: 'Guide', link: '/guide/' }] },
})
