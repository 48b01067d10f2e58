// Verifies signatures with libraries from npm, which NODE_PATH leads to. Standard input has
// a JSON array of messages; standard output gets an array of what is wrong with each, null
// for nothing.
const { readFileSync } = require("node:fs")
const { component, verifySignature, webcrypto } = require("http-message-sig")
const { verify } = require("web-bot-auth")
const { verifierFromJWK } = require("web-bot-auth/crypto")

const required = ["created", "expires", "keyid", "tag"]

async function resolver(keys) {
  const verifiers = new Map()
  for (const jwk of keys) {
    const key = await crypto.subtle.importKey("jwk", { ...jwk, use: undefined }, { name: "Ed25519" }, true, ["verify"])
    verifiers.set(jwk.kid, webcrypto.verifier(key))
  }
  return (candidate) => verifiers.get(candidate.parameters.keyid)
}

const list = (headers) => Object.entries(headers).flatMap(([name, values]) => values.map((value) => ({ name, value })))
const plain = (headers) => Object.fromEntries(Object.entries(headers).map(([name, values]) => [name, values.join(", ")]))

const checks = {
  async dictionary({ method, url, headers, keys: { keys } }) {
    await verifySignature({ kind: "request", method, targetUri: url, fields: list(headers) }, {
      policy: {
        algorithms: ["ed25519"], maxAge: 24 * 3600,
        requiredComponents: ["@authority", "@method", "@path", component("signature-agent", { key: "sig1" })],
        requiredParameters: [...required, "alg", "nonce"],
        validate: ({ parameters }) => parameters.tag === "web-bot-auth",
      },
      resolveVerifier: await resolver(keys),
    })
  },
  async string({ method, url, headers, keys: { keys } }) {
    const key = keys.find(({ kid }) => headers["Signature-Input"][0].includes(`;keyid="${kid}";`))
    await verify({ method, url, headers: plain(headers) }, await verifierFromJWK(key))
  },
  async directory({ url, headers, keys: { keys }, body }) {
    const { keys: published } = JSON.parse(body)
    const resolveVerifier = await resolver(published)
    const labels = headers["Signature-Input"][0].match(/binding\d*(?==\()/g)
    if (labels.length !== keys.length) throw new Error(`${labels.length} signatures for ${keys.length} keys`)
    const signers = new Set()
    for (const label of labels) {
      const { parameters } = await verifySignature(
        { kind: "response", status: 200, fields: list(headers), request: { kind: "request", method: "GET", targetUri: url, fields: [] } },
        {
          label, resolveVerifier,
          policy: {
            algorithms: ["ed25519"], requiredComponents: [component("@authority", { req: true }), "content-digest"], requiredParameters: required,
            validate: ({ parameters }) => parameters.tag === "http-message-signatures-directory",
          },
        })
      signers.add(parameters.keyid)
    }
    for (const { kid } of keys) if (!signers.has(kid)) throw new Error(`${kid} does not sign`)
  },
}

async function main() {
  const faults = []
  for (const message of JSON.parse(readFileSync(0, "utf8"))) {
    faults.push(await checks[message.check](message).then(() => null, String))
  }
  process.stdout.write(JSON.stringify(faults))
}
main()
