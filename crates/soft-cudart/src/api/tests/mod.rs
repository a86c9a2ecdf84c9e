//! Tests of the functions, called as C calls them.
