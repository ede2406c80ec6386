// What CloudFront and Cloudflare do with docs/how-to/serve/*.js, as far as their documentation says, on a loopback port.
//
//   node edge.mjs cloudfront|cloudflare ORIGIN FOLDER      prints the port, serves until it is ended
//   node edge.mjs event FILE                               reads events as JSON from stdin, prints what the function made

import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import vm from "node:vm";

// A CloudFront function is a script that defines handler, with neither modules nor node's globals.
function cloudfrontFunction(file) {
  const context = vm.createContext({});
  vm.runInContext(fs.readFileSync(file, "utf8"), context, { filename: file });
  return (event) => context.handler(event);
}

const wrapped = (headers) => Object.fromEntries(Object.entries(headers).map(([n, v]) => [n, { value: String(v) }]));
const plain = (headers) => Object.fromEntries(Object.entries(headers ?? {}).map(([n, { value }]) => [n, value]));

function ask(origin, uri, method, headers) {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(origin);
    const asked = http.request({ hostname, port, path: uri, method, headers: { ...headers, host: hostname } }, (answer) => {
      const chunks = [];
      answer.on("data", (chunk) => chunks.push(chunk));
      answer.on("end", () => resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(chunks) }));
    });
    asked.on("error", reject);
    asked.end();
  });
}

function cloudfront(origin, folder) {
  const onRequest = cloudfrontFunction(path.join(folder, "cloudfront-request.js"));
  const onResponse = cloudfrontFunction(path.join(folder, "cloudfront-response.js"));
  return async (incoming, outgoing) => {
    const [uri] = incoming.url.split("?");
    const viewer = { method: incoming.method, uri, querystring: {}, headers: wrapped(incoming.headers), cookies: {} };
    const made = onRequest({ version: "1.0", context: { eventType: "viewer-request" }, request: structuredClone(viewer) });
    if (made.statusCode) return reply(outgoing, made.statusCode, plain(made.headers), "");
    const answer = await ask(origin, made.uri, made.method, plain(made.headers));
    let { headers } = answer;
    delete headers.connection;
    // "CloudFront doesn't invoke edge functions for viewer response events when the origin returns 400 or higher."
    if (answer.status < 400) {
      const response = { statusCode: answer.status, statusDescription: "", headers: wrapped(headers), cookies: {} };
      headers = plain(onResponse({ version: "1.0", context: { eventType: "viewer-response" }, request: viewer, response }).headers);
    }
    reply(outgoing, answer.status, { ...headers, "x-amz-cf-id": "test" }, answer.body);
  };
}

async function cloudflare(origin, folder) {
  const source = fs.readFileSync(path.join(folder, "cloudflare-worker.js"), "utf8");
  const worker = (await import(`data:text/javascript,${encodeURIComponent(source)}`)).default;
  return async (incoming, outgoing) => {
    const url = `http://${incoming.headers.host}${incoming.url}`;
    const answer = await worker.fetch(new Request(url, { method: incoming.method, headers: incoming.headers }), { ORIGIN: origin });
    const body = Buffer.from(await answer.arrayBuffer());
    reply(outgoing, answer.status, { ...Object.fromEntries(answer.headers), server: "cloudflare" }, body);
  };
}

function reply(outgoing, status, headers, body) {
  delete headers["transfer-encoding"];
  outgoing.writeHead(status, headers);
  outgoing.end(body);
}

async function main([kind, origin, folder]) {
  if (kind === "event") {
    const handler = cloudfrontFunction(origin);
    const events = JSON.parse(fs.readFileSync(0, "utf8"));
    console.log(JSON.stringify(events.map((event) => handler(event))));
    return;
  }
  const answer = await { cloudfront, cloudflare }[kind](origin, folder);
  const server = http.createServer((incoming, outgoing) => {
    answer(incoming, outgoing).catch((error) => reply(outgoing, 500, {}, String(error.stack)));
  });
  server.listen(0, "127.0.0.1", () => console.log(server.address().port));
}

await main(process.argv.slice(2));
