import { defineConfig } from 'astro/config';
import starlight from '@astrojs/starlight';

export default defineConfig({
  site: 'https://mill.example.org',
  base: '/docs',
  integrations: [starlight({ title: 'Mill', pagefind: false, sidebar: [{ label: 'Guide', autogenerate: { directory: 'guide' } }] })],
});
