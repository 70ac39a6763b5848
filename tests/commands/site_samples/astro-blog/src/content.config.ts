import { defineCollection } from 'astro:content';
import { glob } from 'astro/loaders';

const blog = defineCollection({ loader: glob({ base: './src/content/blog', pattern: '**/*.md' }) });

export const collections = { blog };
