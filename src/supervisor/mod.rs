//! Session id → handle: loading, unloading when idle, containment of crashes, and the list of sessions.
