// links.cjs URL: checks all links of a site with broken-link-checker.

const { SiteChecker } = require('broken-link-checker');

const checker = new SiteChecker({ honorRobotExclusions: false, requestMethod: 'get' }, {});
checker.enqueue(process.argv[2]);
