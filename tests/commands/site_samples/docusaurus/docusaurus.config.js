// @ts-check
const base = '/project/';

/** @type {import('@docusaurus/types').Config} */
const config = {
  title: 'Mill',
  url: 'https://mill.example.org', // the site
  baseUrl: base,
  onBrokenLinks: 'ignore',
  i18n: {defaultLocale: 'en', locales: ['en', 'de']},
  presets: [
    ['classic', /** @type {import('@docusaurus/preset-classic').Options} */ ({
      docs: {sidebarPath: undefined, editUrl: ({docPath}) => `https://x.example.org/${docPath}`},
      blog: {routeBasePath: 'news', onUntruncatedBlogPosts: 'ignore', onInlineAuthors: 'ignore'},
    })],
  ],
  plugins: [
    ['@docusaurus/plugin-content-docs', {id: 'api', path: 'reference', routeBasePath: 'api', sidebarPath: undefined}],
  ],
};

module.exports = config;
