//! `collspec gpu` gives a program a CUDA driver, and attaches the libraries with a CUDA runtime that it loads.
#![allow(unsafe_code)] // a driver and a library are opened and called

use libloading::os::unix::{Library, Symbol};
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::process::{Command, Output};

/// The variable that tells a program that it is one; without it, it was started with all tests that are ignored.
const PROGRAM: &str = "COLLSPEC_TEST_PROGRAM";
/// The variable with the library that the program opens.
const LIBRARY: &str = "COLLSPEC_TEST_LIBRARY";

/// Runs the test of this name as a program on three software GPUs.
fn run(program: &str, library: Option<&Path>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collspec"));
    command.args(["gpu", "--"]).arg(std::env::current_exe().unwrap());
    command
        .args([&format!("gpu::{program}"), "--exact", "--ignored", "--nocapture"])
        .env("COLLSPEC_SOFTWARE_GPUS", "3")
        .env(PROGRAM, program);
    command.envs(library.map(|path| (LIBRARY, path))).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A function of a library, of the type that its caller gives.
fn function<T>(library: &Library, name: &str) -> Symbol<T> {
    // SAFETY: each caller gives the type of the C function of this name.
    unsafe { library.get(name.as_bytes()) }.unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn open(path: &str) -> Library {
    // SAFETY: the libraries of these tests do nothing when they are loaded.
    unsafe { Library::new(path) }.unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
#[cfg(target_arch = "x86_64")]
fn faults_of_the_machine_are_counted_or_refused_by_name() {
    let run = |fault: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_collspec"));
        text(&command.args(["gpu", "--", "true"]).env("COLLSPEC_SOFTWARE_FAULT", fault).output().unwrap())
    };
    assert!(run("count").contains("software GPU: 0 stores"), "{}", run("count"));
    assert!(run("lost_write:x").contains("\"x\" is not a number"), "{}", run("lost_write:x"));
    assert!(run("gremlin").contains("none of count, bit_flip_user, bit_flip_nccl and lost_write"));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_program_that_calls_the_driver_finds_software_gpus_and_their_memory() {
    let output = run("calls_the_driver", None);
    assert!(output.status.success() && text(&output).contains("1 passed"), "{}", text(&output));
}

#[test]
#[ignore = "the program of the test above"]
fn calls_the_driver() {
    if std::env::var_os(PROGRAM).is_none() {
        return;
    }
    type Address = u64;
    let cuda = open("libcuda.so.1");
    let mut count = 0;
    let init: Symbol<unsafe extern "C" fn(u32) -> c_int> = function(&cuda, "cuInit");
    let devices: Symbol<unsafe extern "C" fn(*mut c_int) -> c_int> = function(&cuda, "cuDeviceGetCount");
    // SAFETY: the functions have these types, and the addresses are of this function's variables.
    assert_eq!(unsafe { (init(0), devices(&mut count)) }, (0, 0));
    assert_eq!(count, 3);

    type Find = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> c_int;
    let find: Symbol<Find> = function(&cuda, "cuGetProcAddress_v2");
    let (mut address, mut status) = (std::ptr::null_mut(), 0);
    // SAFETY: as above.
    let code = unsafe { find(c"cuArrayCreate_v2".as_ptr(), &mut address, 12000, 0, &mut status) };
    assert_eq!((code, status, address.is_null()), (500, 1, true), "a function that is not there is not found");
    // SAFETY: as above.
    assert_eq!(unsafe { find(c"cuMemsetD32Async".as_ptr(), &mut address, 12000, 0, &mut status) }, 0);
    type Fill = unsafe extern "C" fn(Address, u32, usize, *mut c_void) -> c_int;
    // SAFETY: the function of that name has this type.
    let fill: Fill = unsafe { std::mem::transmute(address) };

    let allocate: Symbol<unsafe extern "C" fn(*mut Address, usize) -> c_int> = function(&cuda, "cuMemAlloc_v2");
    let stream: Symbol<unsafe extern "C" fn(*mut *mut c_void, u32) -> c_int> = function(&cuda, "cuStreamCreate");
    let copy: Symbol<unsafe extern "C" fn(*mut c_void, Address, usize) -> c_int> = function(&cuda, "cuMemcpyDtoH_v2");
    type Later = unsafe extern "C" fn(*mut c_void, extern "C" fn(*mut c_void), *mut c_void) -> c_int;
    let later: Symbol<Later> = function(&cuda, "cuLaunchHostFunc");
    let (mut memory, mut on, mut found) = (0, std::ptr::null_mut(), [0_u32; 1000]);
    // SAFETY: as above. The copy, which is on the default stream, waits for the stream, which is not `NON_BLOCKING`.
    unsafe {
        assert_eq!((allocate(&mut memory, 4000), stream(&mut on, 0)), (0, 0));
        assert_eq!(later(on, sleep, std::ptr::null_mut()), 0);
        assert_eq!(fill(memory, 0x0102_0304, 1000, on), 0);
        assert_eq!(fill(memory, 0, 1001, on), 1, "beyond the memory");
        assert_eq!(copy(found.as_mut_ptr().cast(), memory, 4000), 0);
    }
    assert_eq!(found, [0x0102_0304; 1000]);

    type Load = unsafe extern "C" fn(*mut *mut c_void, *const c_char) -> c_int;
    type Get = unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const c_char) -> c_int;
    #[rustfmt::skip]
    type Launch = unsafe extern "C" fn(
        *mut c_void, u32, u32, u32, u32, u32, u32, u32, *mut c_void, *const *const Address, *const c_void,
    ) -> c_int;
    let load: Symbol<Load> = function(&cuda, "cuModuleLoadData");
    let get: Symbol<Get> = function(&cuda, "cuModuleGetFunction");
    let launch: Symbol<Launch> = function(&cuda, "cuLaunchKernel");
    let (mut module, mut kernel) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: as above.
    unsafe {
        assert_eq!(load(&mut module, c"\x7fELF".as_ptr()), 209, "machine code");
        assert_eq!(load(&mut module, DOUBLE.as_ptr()), 0);
        assert_eq!(get(&mut kernel, module, c"single".as_ptr()), 500);
        assert_eq!(get(&mut kernel, module, c"double".as_ptr()), 0);
        let none = std::ptr::null();
        assert_eq!(launch(kernel, 10, 1, 1, 100, 1, 1, 0, on, [&raw const memory].as_ptr(), none), 0);
        assert_eq!(copy(found.as_mut_ptr().cast(), memory, 4000), 0);
    }
    assert_eq!(found, [0x0204_0608; 1000]);
}

extern "C" fn sleep(_: *mut c_void) {
    std::thread::sleep(std::time::Duration::from_millis(50));
}

/// Doubles a number for each thread of blocks of 100.
const DOUBLE: &std::ffi::CStr = c"
.version 7.0
.target sm_70
.address_size 64
.visible .entry double(.param .u64 numbers)
{
    .reg .b32 %r<5>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [numbers];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.s32 %r3, %r1, 100, %r2;
    mul.wide.s32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r4, [%rd3];
    add.s32 %r4, %r4, %r4;
    st.global.u32 [%rd3], %r4;
    ret;
}
";

/// A library that says it is NCCL, with functions of a CUDA runtime that find nothing.
const RUNTIME: &str = "
#define FUNCTION(name) int name(void *a) { volatile int code = 35; for (int i = 0; i < 3; i++) code += a == 0; return code; }
FUNCTION(ncclGetVersion) FUNCTION(cudaGetDeviceCount) FUNCTION(cudaGetTextureReference)
";

#[test]
#[cfg(target_arch = "x86_64")]
fn a_runtime_inside_a_library_is_replaced_before_the_program_calls_it() {
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("a.c"), folder.path().join("liba.so"));
    std::fs::write(&source, RUNTIME).unwrap();
    match Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => return eprintln!("skipped: no C compiler (cc: {error})"),
    }
    let output = run("calls_a_runtime", Some(&library));
    let text = text(&output);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    assert!(text.contains("software GPU: cudaGetTextureReference is not supported"), "{text}");
}

/// A runtime as a library of its own. Its functions are long enough for a jump, and find nothing.
const SHARED_RUNTIME: &str = "
#define FUNCTION(name) int name(void *a) { volatile int code = 35; for (int i = 0; i < 3; i++) code += a == 0; return code; }
FUNCTION(cudaRuntimeGetVersion) FUNCTION(cudaMalloc) FUNCTION(cudaMemcpy) FUNCTION(cudaLaunchKernel)
FUNCTION(cudaMemcpyFromSymbol) FUNCTION(cudaMemcpyToSymbol) FUNCTION(cudaGetSymbolAddress) FUNCTION(__cudaRegisterFatBinary) FUNCTION(__cudaRegisterFatBinaryEnd)
FUNCTION(__cudaRegisterFunction) FUNCTION(__cudaRegisterVar)
";

/// A program as nvcc compiles it, with three fat binaries: two have a kernel of the same name, which is static on the host, and one has
/// machine code alone.
const REGISTERS: &str = r#"
#include <stdio.h>
#include <string.h>
typedef struct { unsigned x, y, z; } dim3;
void **__cudaRegisterFatBinary(void *); void __cudaRegisterFatBinaryEnd(void **);
void __cudaRegisterFunction(void **, const void *, char *, const char *, int, void *, void *, dim3 *, dim3 *, int *);
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
int cudaMalloc(void **, size_t), cudaMemcpy(void *, const void *, size_t, int), cudaGetSymbolAddress(void **, const void *);
int cudaMemcpyFromSymbol(void *, const void *, size_t, size_t, int), cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, int);
int cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, void *);
#define PTX(number) ".version 7.0\n.target sm_70\n.address_size 64\n.global .align 4 .u32 own = " #number "1;\n" \
    ".entry _ZN1k5storeEPi(.param .u64 to)\n{ .reg .b64 %d<3>; .reg .b32 %r<3>; ld.param.u64 %d1, [to];\n" \
    "mov.u32 %r1, " #number "; st.global.u32 [%d1], %r1; ret; }\n" \
    ".visible .entry odd() { surprise.b32; ret; }\n"
#define BINARY(name, type, arch, text) static struct { unsigned magic; unsigned short version, size; unsigned long rest; \
    unsigned short kind, a; unsigned header; unsigned long payload; unsigned compressed, options; unsigned short minor, major; \
    unsigned architecture; unsigned long b; unsigned long flags, c, d; char content[sizeof(text)]; } \
    binary_##name = { 0xba55ed50, 1, 16, 64 + sizeof(text), type, 0, 64, sizeof(text), 0, 0, 0, 7, arch, 0, 0, 0, 0, text }; \
    static struct { unsigned magic, version; void *data, *more; } wrapper_##name = { 0x466243b1, 1, &binary_##name, 0 }; \
    static void stub_##name(void) {}
BINARY(one, 1, 70, PTX(1))
BINARY(two, 1, 70, PTX(2))
BINARY(code, 2, 75, "\x7f" "ELF of a GPU")
static int own;
static void odd(void) {}
__attribute__((constructor)) static void begin(void) {
    void **one = __cudaRegisterFatBinary(&wrapper_one), **two = __cudaRegisterFatBinary(&wrapper_two);
    void **code = __cudaRegisterFatBinary(&wrapper_code);
    __cudaRegisterFunction(one, stub_one, "", "_ZN1k5storeEPi", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFunction(two, stub_two, "", "_ZN1k5storeEPi", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFunction(two, odd, "", "odd", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFunction(code, stub_code, "", "_Z6matmulv", -1, 0, 0, 0, 0, 0);
    __cudaRegisterVar(two, (char *)&own, "own", "own", 0, 4, 0, 0);
    __cudaRegisterFatBinaryEnd(code);
}
int main() {
    int *memory, found[2] = {0, 0}, in = 0; void *address = 0;
    dim3 unit = {1, 1, 1};
    int code = cudaMalloc((void **)&memory, 8);
    void *parameters[] = {&memory}, *next = memory + 1, *others[] = {&next};
    code += cudaLaunchKernel(stub_one, unit, unit, parameters, 0, 0) + cudaLaunchKernel(stub_two, unit, unit, others, 0, 0);
    code += cudaMemcpy(found, memory, 8, 2) + cudaGetSymbolAddress(&address, &own) + cudaMemcpy(&in, address, 4, 2);
    short half = 0x0102, seen = 0;
    code += cudaMemcpyToSymbol(&own, &half, 2, 2, 1) + cudaMemcpyFromSymbol(&seen, &own, 2, 2, 2);
    printf("symbol %x %d\n", seen, cudaMemcpyFromSymbol(&seen, &own, 2, 3, 2));
    void *of_variable[] = {&address};
    for (int i = 0; i < 200; i++) {
        int zero = 0, after = 0;
        code += cudaMemcpyToSymbol(&own, &zero, 4, 0, 1) + cudaLaunchKernel(stub_two, unit, unit, of_variable, 0, 0);
        code += cudaMemcpyFromSymbol(&after, &own, 4, 0, 2) + (after != 2);
    }
    printf("code %d found %d %d in %d\n", code, found[0], found[1], in);
    for (int i = 0; i < 2; i++) printf("machine code %d\n", cudaLaunchKernel(stub_code, unit, unit, 0, 0, 0));
    printf("nothing %d\n", cudaLaunchKernel(&in, unit, unit, 0, 0, 0));
    printf("odd %d\n", cudaLaunchKernel(odd, unit, unit, 0, 0, 0) + cudaMemcpy(found, memory, 8, 2));
    fflush(stdout);
    fprintf(stderr, "END\n");
    return 0;
}"#;

#[test]
#[cfg(target_arch = "x86_64")]
fn kernels_are_those_that_a_program_registers_and_a_refused_one_is_named_at_its_launch() {
    let folder = tempfile::tempdir().unwrap();
    let build = |name: &str, source: &str, options: &[&str]| {
        let (file, built) = (folder.path().join(format!("{name}.c")), folder.path().join(name));
        std::fs::write(&file, source).unwrap();
        let mut compiler = Command::new("cc");
        compiler.arg("-o").args([&built, &file]).args(options).current_dir(folder.path());
        match compiler.output() {
            Ok(output) => assert!(output.status.success(), "{}", text(&output)),
            Err(_) => return None,
        }
        Some(built)
    };
    let built = build("libruntime.so", SHARED_RUNTIME, &["-shared", "-fPIC"]).and_then(|_| {
        // Linked with the runtime's library, or with the runtime in it.
        let shared = build("shared", REGISTERS, &["-L.", "-lruntime", "-Wl,-rpath,$ORIGIN"])?;
        std::fs::write(folder.path().join("runtime.c"), SHARED_RUNTIME).unwrap();
        Some([shared, build("linked", REGISTERS, &["runtime.c"])?])
    });
    let Some(programs) = built else { return eprintln!("skipped: no C compiler (cc)") };
    for program in programs {
        let mut command = Command::new(env!("CARGO_BIN_EXE_collspec"));
        command.args(["gpu", "--"]).arg(&program).env("COLLSPEC_SOFTWARE_GPUS", "2");
        let output = command.output().unwrap();
        let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let lines: Vec<&str> = said.lines().collect();
        let expected =
            ["symbol 102 1", "code 0 found 1 2 in 21", "machine code 209", "machine code 209", "nothing 98", "odd 719"];
        assert_eq!(lines, expected, "{}\n{told}", program.display());
        let told: Vec<&str> = told.lines().collect();
        assert_eq!(told.len(), 4, "{told:?}");
        let [code, nothing, odd, "END"] = told[..] else { panic!("{told:?}") };
        let start = "software GPU: kernel _Z6matmulv on device 0: it is there as machine code alone (sm_75), which cannot run here, \
                     and not as PTX (in ";
        assert!(code.starts_with(start) && code.ends_with(&format!("{})", program.display())), "{code}");
        assert!(nothing.ends_with("nothing has registered a kernel under this address"), "{nothing}");
        assert!(odd.starts_with("software GPU: kernel odd on device 0: ") && odd.contains("surprise.b32"), "{odd}");
    }
}

/// Its runtime starts before the driver is ready and refuses to be loaded after another library.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_program_with_address_sanitizer_finds_software_gpus_and_no_leaks_of_theirs() {
    const SOURCE: &str = "
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int count, char **words) {
            void *cuda = dlopen(\"libcuda.so.1\", RTLD_NOW), *runtime = dlopen(words[1], RTLD_NOW);
            int devices = 0;
            int code = ((int (*)(unsigned))dlsym(cuda, \"cuInit\"))(0);
            code += ((int (*)(int *))dlsym(cuda, \"cuDeviceGetCount\"))(&devices);
            code += ((int (*)(int *))dlsym(runtime, \"cudaGetDeviceCount\"))(&devices);
            printf(\"%d devices\", devices);
            return code;
        }";
    let folder = tempfile::tempdir().unwrap();
    let build = |name: &str, source: &str, options: &[&str]| {
        let (file, built) = (folder.path().join(format!("{name}.c")), folder.path().join(name));
        std::fs::write(&file, source).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(options).arg("-o").args([&built, &file]).arg("-ldl");
        compiler.status().is_ok_and(|status| status.success()).then_some(built)
    };
    let runtime = build("liba.so", RUNTIME, &["-shared", "-fPIC"]);
    let (Some(runtime), Some(program)) = (runtime, build("program", SOURCE, &["-fsanitize=address"])) else {
        return eprintln!("skipped: no C compiler (cc) with AddressSanitizer");
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_collspec"));
    command.args(["gpu", "--"]).arg(program).arg(runtime).env("COLLSPEC_SOFTWARE_GPUS", "3");
    let output = command.output().unwrap();
    assert!(output.status.success() && text(&output).contains("3 devices"), "{}", text(&output));
}

#[test]
#[ignore = "the program of the test above"]
fn calls_a_runtime() {
    if std::env::var_os(PROGRAM).is_none() {
        return;
    }
    let library = open(&std::env::var(LIBRARY).unwrap());
    type Ask = unsafe extern "C" fn(*mut c_int) -> c_int;
    let mut count = 0;
    // SAFETY: the functions have this type, and the address is that of a variable.
    let codes = ["cudaGetDeviceCount", "cudaGetTextureReference"]
        .map(|name| unsafe { function::<Ask>(&library, name)(&mut count) });
    assert_eq!((codes, count), ([0, 801], 3));
}
