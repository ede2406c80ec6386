// A CloudFront function (runtime cloudfront-js-2.0) for viewer requests, before a bucket that holds an index.
// It finds folders' pages, HTML or JSON by Accept. tests/e2e/test_serving.py runs it.

var ROOT = /^\/(simple|cpu|xpu|cu[0-9]+|rocm[0-9.]+)\//;
var JSON_PAGE = /application\/vnd\.pypi\.simple\.(v1|latest)\+json\s*(;\s*q=0(\.0*)?\s*(,|$))?/i;

// eslint-disable-next-line no-unused-vars -- CloudFront calls it
function handler(event) {
    var request = event.request;
    // Without this, a redirect of //example.org would lead there.
    var uri = request.uri.replace(/^\/+/, '/');

    // State and locks belong to who publishes.
    if (/^\/[_.]/.test(decoded(uri))) {
        return { statusCode: 404, statusDescription: 'Not Found' };
    }
    if (isFolder(uri)) {
        return {
            statusCode: 301,
            statusDescription: 'Moved Permanently',
            headers: { location: { value: uri + '/' } }
        };
    }
    if (uri.endsWith('/')) {
        uri += ROOT.test(uri) && wantsJson(request.headers.accept) ? 'index.json' : 'index.html';
    }
    // S3 reads + as a space.
    request.uri = uri.replace(/\+/g, '%2B');
    return request;
}

// Files have an ending of letters; rocm6.4 is a folder.
function isFolder(uri) {
    return !uri.endsWith('/') && !/\.[a-z]+$/i.test(uri);
}

function wantsJson(accept) {
    var found = accept ? JSON_PAGE.exec(accept.value) : null;
    // The second group is there where its weight is 0: the client does not want it.
    return found !== null && found[2] === undefined;
}

function decoded(uri) {
    try {
        return decodeURIComponent(uri);
    } catch (error) {
        return uri;
    }
}
