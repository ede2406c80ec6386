// A CloudFront function (runtime cloudfront-js-2.0) for viewer responses, beside cloudfront-request.js: it tells caches
// behind CloudFront that a page depends on Accept. tests/e2e/test_serving.py runs it.

// The request's URI may be the one that the viewer sent, or the one that cloudfront-request.js made of it.
var PAGE = /^\/+(simple|cpu|xpu|cu[0-9]+|rocm[0-9.]+)\/(.*\/)?(index\.(html|json))?$/;

// eslint-disable-next-line no-unused-vars -- CloudFront calls it
function handler(event) {
    var response = event.response;
    if (PAGE.test(event.request.uri)) {
        var vary = response.headers.vary;
        response.headers.vary = { value: vary ? vary.value + ', Accept' : 'Accept' };
    }
    return response;
}
