//! Every scenario of this repository, as a test.
collspec::harness!("scenarios");
