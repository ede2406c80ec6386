// A Cloudflare Worker before a bucket that holds an index: R2 with a public host name, or S3. It finds folders' pages,
// HTML or JSON by Accept. Set ORIGIN to the bucket's URL, without a slash at its end:
//
//     [vars]
//     ORIGIN = "https://bucket.s3.eu-west-1.amazonaws.com"
//
// tests/e2e/test_serving.py runs it.

const ROOT = /^\/(simple|cpu|xpu|cu[0-9]+|rocm[0-9.]+)\//;
const JSON_PAGE = /application\/vnd\.pypi\.simple\.(v1|latest)\+json\s*(;\s*q=0(\.0*)?\s*(,|$))?/i;
const PASSED_ON = ["if-match", "if-modified-since", "if-none-match", "if-range", "range"];

export default {
  async fetch(request, env) {
    if (request.method !== "GET" && request.method !== "HEAD") {
      return new Response("405 Method Not Allowed\n", { status: 405, headers: { allow: "GET, HEAD" } });
    }
    // Without this, a redirect of //example.org would lead there.
    const path = new URL(request.url).pathname.replace(/^\/+/, "/");
    // State and locks belong to who publishes.
    if (/^\/[_.]/.test(decoded(path))) return notFound();
    if (isFolder(path)) return new Response(null, { status: 301, headers: { location: `${path}/` } });

    const negotiated = ROOT.test(path) && /\/(index\.(html|json))?$/.test(path);
    let key = path;
    if (path.endsWith("/")) key += negotiated && wantsJson(request.headers.get("accept")) ? "index.json" : "index.html";

    const headers = new Headers();
    for (const name of PASSED_ON) {
      if (request.headers.has(name)) headers.set(name, request.headers.get(name));
    }
    // What travels is what was hashed, so the bucket is asked for it as it is. S3 reads + as a space.
    headers.set("accept-encoding", "identity");
    const answer = await fetch(env.ORIGIN + key.replaceAll("+", "%2B"), { method: request.method, headers });
    // A bucket that may not be listed says 403 for what is not there, at which uv would stop.
    if (answer.status === 403 || answer.status === 404) return notFound();

    const response = new Response(answer.body, answer);
    if (negotiated) response.headers.append("vary", "Accept");
    return response;
  },
};

// Files have an ending of letters; rocm6.4 is a folder.
function isFolder(path) {
  return !path.endsWith("/") && !/\.[a-z]+$/i.test(path);
}

function wantsJson(accept) {
  const found = JSON_PAGE.exec(accept ?? "");
  // The second group is there where its weight is 0: the client does not want it.
  return found !== null && found[2] === undefined;
}

function notFound() {
  return new Response("404 Not Found\n", { status: 404, headers: { "content-type": "text/plain" } });
}

function decoded(path) {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
