// scraper.cjs URL: copies a site with website-scraper.

const { mkdtempSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join } = require('node:path');

import(require.resolve('website-scraper')).then(({ default: scrape }) =>
  scrape({ urls: [process.argv[2]], recursive: true, directory: join(mkdtempSync(join(tmpdir(), 'scraper-')), 'site') }),
);
