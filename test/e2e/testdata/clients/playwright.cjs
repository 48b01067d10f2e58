// playwright.cjs URL: shows a page as Playwright sees it, with Debian's Chromium.

const { chromium } = require('playwright');

process.env.TMPDIR = '/tmp'; // the path of a socket that Chromium makes there must be short

async function show(url) {
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium' });
  const page = await browser.newPage({ ignoreHTTPSErrors: true });
  await page.goto(url);
  console.log(await page.content());
  await browser.close();
}

show(process.argv[2]);
