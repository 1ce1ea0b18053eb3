//! Framing.
