// fetch.cjs fetch|http URL: gets a page by the global fetch or by the modules
// http and https.

async function byFetch(url) {
  const response = await fetch(url);
  show(response.status, response.headers.get('proxy-status'), await response.text());
}

function byModule(url) {
  const client = url.startsWith('https:') ? require('node:https') : require('node:http');
  client.get(url, async (response) => {
    let body = '';
    for await (const piece of response) body += piece;
    show(response.statusCode, response.headers['proxy-status'], body);
  });
}

function show(status, proxyStatus, body) {
  console.log(`${status}\nProxy-Status: ${proxyStatus}\n${body}`);
}

const [kind, url] = process.argv.slice(2);
({ fetch: byFetch, http: byModule })[kind](url);
