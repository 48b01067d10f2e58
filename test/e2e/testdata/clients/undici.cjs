// Leads fetch through the proxy that the environment names, in a Node that
// does not heed it by itself.

const { EnvHttpProxyAgent, setGlobalDispatcher } = require('undici');

setGlobalDispatcher(new EnvHttpProxyAgent());
