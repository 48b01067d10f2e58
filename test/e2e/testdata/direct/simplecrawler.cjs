// simplecrawler.cjs URL: crawls a site with simplecrawler, which is told to disregard robots.txt.

const Crawler = require('simplecrawler');

const crawler = new Crawler(process.argv[2]);
crawler.respectRobotsTxt = false;
crawler.start();
