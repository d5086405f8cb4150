//! Where payloads rest.
