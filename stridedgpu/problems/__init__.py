"""Each operation as loops over memory, without a device; and the protocol that every plan keeps."""
