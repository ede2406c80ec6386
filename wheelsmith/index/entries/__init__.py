"""Records of an index, and the pages for installers that are made from them."""
