// fetch.cjs URL: gets a page by an agent of its own, which reads no proxy variables.

const url = process.argv[2];
const client = url.startsWith('https:') ? require('node:https') : require('node:http');
client.get(url, { agent: new client.Agent() }, async (response) => {
  let body = '';
  for await (const piece of response) body += piece;
  console.log(`${response.statusCode}\nProxy-Status: ${response.headers['proxy-status']}\n${body}`);
});
