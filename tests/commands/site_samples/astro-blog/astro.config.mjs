import { defineConfig } from 'astro/config';

export default defineConfig({
  site: 'https://mill.example.org',
  build: { format: 'file' },
});
