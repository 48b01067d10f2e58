// crawlee.cjs cheerio|playwright URL: crawls a site with one of Crawlee's crawlers, which is told
// the proxy, and whom to trust, in its code.

const { CheerioCrawler, Configuration, ProxyConfiguration } = require('@crawlee/cheerio');
const { PlaywrightCrawler } = require('@crawlee/playwright');

process.env.TMPDIR = '/tmp'; // the path of a socket that Chromium makes there must be short
const [kind, url] = process.argv.slice(2);
const options = {
  proxyConfiguration: new ProxyConfiguration({ proxyUrls: [process.env.ROBOTSPROXY_URL] }),
  requestHandler: ({ enqueueLinks }) => enqueueLinks(),
};
if (kind === 'playwright') {
  options.launchContext = { launchOptions: { executablePath: '/usr/bin/chromium', ignoreHTTPSErrors: true } };
}
const Crawler = { cheerio: CheerioCrawler, playwright: PlaywrightCrawler }[kind];
const crawler = new Crawler(options, new Configuration({ persistStorage: false }));
crawler.run([url]).then(() => process.exit()); // else its idle connections keep it for half a minute
