import type {Config} from '@docusaurus/types';
import type * as Preset from '@docusaurus/preset-classic';

const config: Config = {
  title: 'Mill',
  url: process.env.SITE_URL || 'https://mill.example.org',
  baseUrl: '/',
  trailingSlash: true,
  presets: [
    [
      'classic',
      {
        docs: {path: 'handbook', routeBasePath: '/', sidebarPath: undefined},
        blog: false,
      } satisfies Preset.Options,
    ],
  ],
};

export default config;
