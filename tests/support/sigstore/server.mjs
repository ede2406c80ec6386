// A Sigstore on loopback: the handlers of @sigstore/mock behind node's own server. It prints one line of JSON: its
// address, and the parts of its root of trust. What a client sends in another way than the handlers take is rewritten.
import { createHash, generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";

const require = createRequire(`${process.argv[2]}/`);
const mock = require("@sigstore/mock");
const pair = (namedCurve = "P-256") => generateKeyPairSync("ec", { namedCurve });

const server = createServer();
server.listen(0, "127.0.0.1", start);

async function start() {
  const url = `http://127.0.0.1:${server.address().port}`;
  const ctLog = await mock.initializeCTLog(pair());
  const ca = await mock.initializeCA(pair("P-384"), ctLog);
  const tlog = await mock.initializeTLog(url, pair());
  const fulcio = mock.fulcioHandler(ca).fn;
  const rekor = mock.rekorHandler(tlog).fn;
  server.on("request", async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    try {
      const answer = request.url.endsWith("/signingCert")
        ? await fulcio(certificateRequest(request, JSON.parse(body)))
        : await rekor(JSON.stringify(entry(JSON.parse(body))));
      response.writeHead(answer.statusCode, { "Content-Type": answer.contentType ?? "text/plain" });
      response.end(answer.response);
    } catch (error) {
      response.writeHead(400).end(String(error));
    }
  });
  const base64 = (data) => Buffer.from(data).toString("base64");
  const said = { url, ca: base64(ca.rootCertificate), tlog: base64(tlog.publicKey), ctlog: base64(ctLog.publicKey) };
  console.log(JSON.stringify(said));
}

// Python's client sends the token in a header, and the request for a certificate in base64.
function certificateRequest(request, data) {
  const bearer = (request.headers.authorization ?? "").replace(/^Bearer /, "");
  if (bearer && !data.credentials) data.credentials = { oidcIdentityToken: bearer };
  const csr = data.certificateSigningRequest;
  if (csr && !csr.startsWith("-----")) data.certificateSigningRequest = Buffer.from(csr, "base64").toString();
  return JSON.stringify(data);
}

// What a log keeps of an envelope, as Rekor has it: hashes and signatures, and not the envelope.
function entry(data) {
  if (data.kind !== "dsse" || !data.spec.proposedContent) return data;
  const { envelope, verifiers } = data.spec.proposedContent;
  const parsed = JSON.parse(envelope);
  const sha256 = (value) => ({ algorithm: "sha256", value: createHash("sha256").update(value).digest("hex") });
  const signatures = parsed.signatures.map((each, place) => ({ signature: each.sig, verifier: verifiers[place] }));
  const payloadHash = sha256(Buffer.from(parsed.payload, "base64"));
  return { apiVersion: "0.0.1", kind: "dsse", spec: { envelopeHash: sha256(envelope), payloadHash, signatures } };
}
