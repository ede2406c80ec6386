"""The records of an index, and the pages for installers that are rendered from them."""
