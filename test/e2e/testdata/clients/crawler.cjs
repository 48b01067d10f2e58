// crawler.cjs URL: crawls a site with crawler, which was node-crawler.

import(require.resolve('crawler')).then(({ default: Crawler }) => {
  const crawler = new Crawler({
    callback(error, response, done) {
      const $ = response?.$;
      if ($) $('a').each((_, a) => crawler.add(new URL($(a).attr('href'), response.options.url).href));
      done();
    },
  });
  crawler.add(process.argv[2]);
});
