//! Windows and one-sided operations on stand-in libraries: what they lack, and what older ones need.
use super::{library, run, without};
use crate::support::Home;
use collspec_run::library::standin;

const PUT: &str = r#"world_size = 2
inputs.x = { each = "rank + i", count = 4, register = "window" }
inputs.w = { count = 4, register = "window" }
steps = [
  { op = "put", peer = "1 - rank", in = "x", out = "w" },
  { op = "wait_signal", peer = "1 - rank" },
]
expect.w = [[1, 2, 3, 4], [0, 1, 2, 3]]
"#;
const LOCAL: &str =
    "world_size = 2\nregister = \"local\"\nop = \"all_reduce\"\ninputs = [[1], [2]]\nexpect = { each = 3 }\n";

#[test]
fn windows_lie_in_memory_of_the_library() {
    let home = Home::new();
    home.file("put.toml", PUT);
    home.file("local.toml", LOCAL);
    let all = run(&home, 2, &standin::library().unwrap(), &["run", "put.toml", "local.toml"]);
    assert!(all.code == 0 && all.out.contains("2 passed"), "{all}");
}

#[test]
fn what_a_library_lacks_of_them_is_a_skip_with_its_reason() {
    let home = Home::new();
    home.file("put.toml", PUT);
    home.file("local.toml", LOCAL);
    for (function, file, since) in [
        ("ncclCommRegister", "local.toml", "2.19"),
        ("ncclMemAlloc", "put.toml", "2.19"),
        ("ncclCommWindowRegister", "put.toml", "2.27"),
        ("ncclPutSignal", "put.toml", "2.29"),
        ("ncclWaitSignal", "put.toml", "2.29"),
    ] {
        let lacking = without(&home, function, &[function]);
        let skipped = run(&home, 2, &lacking, &["run", file]);
        let reason = format!("needs {function} (since NCCL {since})");
        assert!(skipped.code == 0 && skipped.out.contains(&reason), "{function}: {skipped}");
    }
}

#[test]
fn every_rank_signals_first_where_the_library_needs_it() {
    let home = Home::new();
    for placement in ["threads", "one_thread", "processes"] {
        home.file(&format!("{placement}.toml"), &format!("{PUT}placement = \"{placement}\"\n"));
    }
    // Calls on these communicators answer before they are over.
    for placement in ["threads", "processes"] {
        let text = format!("{PUT}placement = \"{placement}\"\nconfig = {{ blocking = 0 }}\n");
        home.file(&format!("{placement}_in_progress.toml"), &text);
    }
    let old = library(&home, "old", "version=23007");
    let old = run(&home, 2, &old, &["run", "."]);
    assert!(old.code == 0 && old.out.contains("5 passed"), "{old}");
}

#[test]
fn without_windows_puts_are_skipped_and_collectives_run() {
    let home = Home::new();
    home.file("put.toml", &PUT.replace("world_size = 2", "world_size = 2\nenv.NCCL_WIN_ENABLE = 0"));
    home.file("sum.toml", &LOCAL.replace("\"local\"", "\"window\"").replace("op =", "env.NCCL_WIN_ENABLE = 0\nop ="));
    let none = run(&home, 2, &standin::library().unwrap(), &["run", "put.toml", "sum.toml"]);
    assert!(none.code == 0 && none.out.contains("1 passed, 0 failed, 1 skipped"), "{none}");
    assert!(none.out.contains("one-sided operations need windows, and the library made none"), "{none}");
}
