// cheerio.cjs URL: crawls a site with Crawlee's CheerioCrawler.

const { CheerioCrawler, Configuration } = require('@crawlee/cheerio');

const crawler = new CheerioCrawler(
  { maxRequestRetries: 0, requestHandler: ({ enqueueLinks }) => enqueueLinks() },
  new Configuration({ persistStorage: false }),
);
crawler.run([process.argv[2]]).then(() => process.exit()); // else its idle connections keep it for half a minute
