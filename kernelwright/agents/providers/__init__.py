"""Language model servers, each behind one protocol: one file a provider."""
