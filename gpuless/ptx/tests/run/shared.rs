//! Named memory: the variables of a kernel's blocks, their places, and the resolution of equal names.

use crate::device::Device;

/// A kernel that writes as many numbers to its array as its lines store.
fn kernel(name: &str, declarations: &str, lines: &str) -> String {
    format!(
        ".visible .entry {name}(.param .u64 m)\n{{\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %d<8>;\n{declarations}\n\
         ld.param.u64 %d1, [m];\n{lines}\nret;\n}}\n"
    )
}

/// The values that a kernel of one block of `threads` has written.
fn values(text: &str, kernel: &str, threads: u32) -> Vec<u32> {
    let mut device = Device::new(text);
    let memory = device.array(&[0; 8]);
    device.run(kernel, 1, threads, &[memory], 1).unwrap_or_else(|error| panic!("{error}"));
    device.values(0)
}

#[test]
fn what_a_body_declares_as_shared_is_one_for_each_block_and_for_all_calls() {
    let count = ".func count(.param .b64 m)\n{\n.reg .b32 %r<3>;\n.reg .b64 %d<3>;\n.shared .align 4 .u32 n;\n\
        ld.param.u64 %d1, [m];\nred.shared.add.u32 [n], 1;\nbar.sync 0;\nld.shared.u32 %r1, [n];\nst.global.u32 [%d1], %r1;\nbar.sync 0;\nret;\n}\n";
    let call = "{ .param .b64 given; st.param.b64 [given], %d1; call count, (given); }\n";
    let lines = format!(
        "mov.u32 %r1, %ctaid.x;\nmul.wide.u32 %d2, %r1, 16;\nadd.s64 %d1, %d1, %d2;\nst.shared.u32 [n], 7;\n{call}{call}\
         ld.shared.u32 %r2, [n];\nst.global.u32 [%d1+4], %r2;\nmov.u64 %d3, n;\ncvta.shared.u64 %d3, %d3;\nld.u32 %r3, [%d3+4];\n\
         st.global.u32 [%d1+8], %r3;"
    );
    let text = format!("{count}{}", kernel("k", ".shared .u32 n;\n.shared .u32 other;", &lines));
    let mut device = Device::new(&text);
    let memory = device.array(&[9; 8]);
    device.run("k", 2, 64, &[memory], 1).unwrap();
    assert_eq!(device.values(0), [128, 7, 0, 9, 128, 7, 0, 9]);
}

#[test]
fn a_kernel_has_the_shared_memory_that_it_reaches() {
    let size = "mov.u32 %r1, %total_smem_size;\nsub.u32 %r1, %r1, 256;\nst.global.u32 [%d1], %r1;\n";
    let touch = |name: &str| {
        format!("{size}st.shared.u32 [{name}], 3;\nld.shared.u32 %r2, [{name}];\nst.global.u32 [%d1+4], %r2;")
    };
    let text = [
        ".shared .align 4 .b8 a[100000];\n.shared .align 4 .b8 b[120000];\n.shared .align 4 .b8 c[200000];\n",
        ".func uses_b() { st.shared.u32 [b], 4; ret; }\n.func declares() { .shared .b8 own[160]; st.shared.u8 [own], 4; ret; }\n",
        ".func calls() { call uses_b; ret; }\n.global .u64 table[2] = {calls, declares};\n.global .u64 tables[1] = {table};\n",
        &kernel("none", "", size),
        &kernel("one", "", &touch("a")),
        &kernel("other", "", &touch("c")),
        &kernel("own", ".shared .align 4 .b8 mine[48];", &touch("mine")),
        &kernel("by_call", "", &format!("call calls;\n{}", touch("a"))),
        &kernel("by_table", "", &format!("mov.u64 %d2, tables;\nld.global.u64 %d2, [%d2];\nld.global.u64 %d2, [%d2];\ncall %d2;\n{size}")),
    ]
    .concat();
    for (name, bytes) in
        [("none", 0), ("one", 100_000), ("other", 200_000), ("own", 48), ("by_call", 220_000), ("by_table", 120_160)]
    {
        assert_eq!(values(&text, name, 1)[0], bytes, "{name}");
    }
    assert_eq!([values(&text, "one", 1)[1], values(&text, "other", 1)[1]], [3, 3]);
}

#[test]
fn shared_memory_that_no_name_of_the_kernel_leads_to_is_refused() {
    let stores = kernel("stores", "", "mov.u64 %d2, uses;\nst.global.u64 [%d1], %d2;");
    let calls = kernel("calls", "", "ld.global.u64 %d2, [%d1];\ncall %d2;");
    let text = format!(".shared .u32 s;\n.func uses() {{ st.shared.u32 [s], 4; ret; }}\n{stores}{calls}");
    let mut device = Device::new(&text);
    let memory = device.array(&[0; 4]);
    device.run("stores", 1, 1, &[memory], 1).unwrap();
    let error = device.run("calls", 1, 1, &[memory], 1).unwrap_err().to_string();
    assert!(error.contains("kernels.ptx:4:1: the kernel does not reach this shared memory by any name"), "{error}");
}

#[test]
fn alignments_are_as_they_are_declared() {
    // The generic address of each, in its low bits.
    let low = |name: &str, space: &str, at: u32| {
        format!(
            "mov.u64 %d2, {name};\ncvta.{space}.u64 %d2, %d2;\ncvt.u32.u64 %r1, %d2;\nand.b32 %r1, %r1, 4095;\nst.global.u32 [%d1+{at}], %r1;\n"
        )
    };
    let lines = [
        low("fixed", "shared", 0),
        low("own", "shared", 4),
        low("dynamic", "shared", 8),
        low("stack", "local", 12),
        low("variable", "global", 16),
        "{ .param .align 4096 .b8 x[4096]; call f, (x); }\nld.global.u32 %r1, [seen];\nst.global.u32 [%d1+20], %r1;\n"
            .to_owned(),
        "mov.u64 %d2, big;\ncvt.u32.u64 %r1, %d2;\nand.b32 %r1, %r1, 4095;\nst.global.u32 [%d1+24], %r1;\n".to_owned(),
    ]
    .concat();
    let declarations =
        ".shared .b8 byte;\n.shared .align 4096 .b32 own;\n.local .b32 first;\n.local .align 4096 .b32 stack;";
    let text = format!(
        ".shared .b8 small;\n.shared .align 4096 .b32 fixed;\n.extern .shared .align 4096 .b8 dynamic[];\n.global .b8 one;\n\
         .global .align 4096 .b32 variable;\n.global .u32 seen = 7;\n\
         .func f(.param .align 4096 .b8 x[4096])\n{{\n.reg .b64 %d<3>;\n.reg .b32 %r<3>;\nmov.u64 %d1, x;\ncvt.u32.u64 %r1, %d1;\n\
         and.b32 %r1, %r1, 4095;\nst.global.u32 [seen], %r1;\nret;\n}}\n{}",
        kernel("k", declarations, &lines).replace("(.param .u64 m)", "(.param .u64 m, .param .align 4096 .b8 big[8])")
    );
    for _ in 0..8 {
        assert_eq!(values(&text, "k", 33), [0; 8]);
    }
}

#[test]
fn names_that_hide_others_have_bytes_of_their_own() {
    let declarations = ".local .b32 x;\n.param .b32 y;\n.shared .b32 z;";
    let store =
        |value: u32| format!("st.local.u32 [x], {value};\nst.param.b32 [y], {value};\nst.shared.u32 [z], {value};\n");
    let lines = format!(
        "{}{{ .local .b32 x; .param .b32 y; .shared .b32 z;\n{} {{ .reg .b64 x; mov.u64 x, 3; }}\n{{ .local .b64 x; st.local.b64 [x], 9; }}\n\
         ld.local.u32 %r1, [x];\nst.global.u32 [%d1+12], %r1;\n}}\nld.local.u32 %r1, [x];\nst.global.u32 [%d1], %r1;\n\
         ld.param.b32 %r1, [y];\nst.global.u32 [%d1+4], %r1;\nld.shared.u32 %r1, [z];\nst.global.u32 [%d1+8], %r1;",
        store(1),
        store(2)
    );
    assert_eq!(values(&kernel("k", declarations, &lines), "k", 1)[..4], [1, 1, 1, 2]);
}

#[test]
fn registers_of_a_family_hide_no_variable_of_the_name_before_their_numbers() {
    let lines = "mov.u32 s1, s;\nst.shared.u32 [s], 5;\nld.shared.u32 s2, [s1];\nst.global.u32 [%d1], s2;";
    for family in ["s<4>", "s <4>"] {
        let text = format!(".shared .b32 x;\n.shared .b32 s;\n{}", kernel("k", &format!(".reg .b32 {family};"), lines));
        assert_eq!(values(&text, "k", 1)[0], 5);
    }
}

#[test]
fn a_value_that_names_what_is_defined_nowhere_is_refused_unless_that_is_weak() {
    let read = kernel("k", "", "mov.u64 %d2, t;\nld.global.u64 %d3, [%d2];\nst.global.u64 [%d1], %d3;");
    let text = format!(".extern .func f();\n.global .u64 t[1] = {{f}};\n{read}");
    let mut device = Device::new(&text);
    let memory = device.array(&[9; 8]);
    for _ in 0..2 {
        let error = device.run("k", 1, 1, &[memory], 1).unwrap_err().to_string();
        assert!(error.contains("kernels.ptx:5:1: its value names `f`, which is defined nowhere"), "{error}");
    }
    assert_eq!(values(&format!(".weak .func f();\n.global .u64 t[1] = {{f}};\n{read}"), "k", 1)[..2], [0, 0]);
}

#[test]
fn many_variables_that_name_each_other_are_placed() {
    let chain: String = (0..40_000).map(|at| format!(".global .u64 v{at}[1] = {{v{}}};\n", at + 1)).collect();
    let text =
        format!("{chain}.global .u64 v40000 = 7;\n{}", kernel("k", "", "mov.u64 %d2, v0;\nst.global.u32 [%d1], 1;"));
    assert_eq!(values(&text, "k", 1)[0], 1);
}

#[test]
fn a_variable_ends_with_its_last_byte() {
    let store = |at: u32| {
        let text = format!(".global .b8 four[4];\n{}", kernel("k", "", &format!("st.global.u8 [four+{at}], 1;")));
        Device::new(&text).run("k", 1, 1, &[0], 1).map_err(|error| error.to_string())
    };
    assert!(store(3).is_ok());
    for at in [4, 15] {
        assert!(store(at).unwrap_err().contains("writes 1 bytes at"), "{at}");
    }
}
