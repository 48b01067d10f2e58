// warc.mjs FILE: reads a WARC file by warcio and prints each record's type, URI, the digests that
// it states and those that warcio makes of it, and the text.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const { WARCParser } = await import(pathToFileURL(createRequire(process.env.NODE_PATH + '/x').resolve('warcio')));

for await (const record of new WARCParser(createReadStream(process.argv[2]))) {
  const text = await record.readFully(false);
  const digest = 'sha256:' + createHash('sha256').update(text ?? '').digest('hex');
  console.log(JSON.stringify({
    type: record.warcType, version: record.warcHeaders.protocol, uri: record.warcTargetURI,
    stated: [record.warcBlockDigest, record.warcPayloadDigest], digest, text: new TextDecoder().decode(text),
  }));
}
