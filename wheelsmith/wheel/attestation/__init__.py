"""Sign and verify wheels: provenance statements, signatures and policies."""
