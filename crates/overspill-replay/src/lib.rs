//! Re-enacts recorded agent sessions under context policies.
