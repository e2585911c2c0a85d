//! No code: its manifest names features, so that builds of a part and of the rest are shared.
