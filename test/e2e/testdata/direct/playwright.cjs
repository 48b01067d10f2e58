// playwright.cjs URL: crawls a site with Crawlee's PlaywrightCrawler and Debian's Chromium.

const { PlaywrightCrawler, Configuration } = require('@crawlee/playwright');

process.env.TMPDIR = '/tmp'; // the path of a socket that Chromium makes there must be short
const crawler = new PlaywrightCrawler(
  {
    launchContext: { launchOptions: { executablePath: '/usr/bin/chromium' } },
    maxRequestRetries: 0,
    requestHandler: ({ enqueueLinks }) => enqueueLinks(),
  },
  new Configuration({ persistStorage: false }),
);
crawler.run([process.argv[2]]).then(() => process.exit()); // else it may not end by itself
