//! Limits on what small files may ask for: the cost of a case is computed before it begins, and refused over the limits. The
//! tests bound memory by the kernel (`ulimit -v` of a child) and work by counting, without a clock.

use crate::support::Home;
use collspec_core::oracle::Forecast;
use collspec_core::plan::{self, Limits, Plan};
use collspec_core::scenario::{self, Case, Diagnostic, SourceFile};
use std::process::{Command, Stdio};
use std::sync::Arc;

fn parsed(text: &str) -> Result<Vec<Case>, Vec<Diagnostic>> {
    let file = Arc::new(SourceFile { path: "x.toml".into(), text: text.into() });
    scenario::parse(&file, "x").map_err(|rejected| rejected.diagnostics)
}

fn planned(text: &str, limits: &Limits) -> Result<Plan, Vec<Diagnostic>> {
    plan::plan(&Arc::new(parsed(text)?.remove(0)), limits)
}

fn messages(diagnostics: &[Diagnostic]) -> String {
    let words = |d: &Diagnostic| format!("{} [{}] ({})", d.message, d.label, d.help.clone().unwrap_or_default());
    diagnostics.iter().map(words).collect::<Vec<_>>().join("\n")
}

/// The messages that refuse a text when it is read, planned or worked out.
fn refusal(text: &str) -> String {
    match planned(text, &Limits::default()) {
        Err(diagnostics) => messages(&diagnostics),
        Ok(plan) => messages(&Forecast::new(&plan, 0).err().unwrap_or_default()),
    }
}

fn refused_for(text: &str, words: &[&str]) {
    let message = refusal(text);
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
}

/// An expression of almost 4 KB whose values do not repeat.
fn long_expression() -> String {
    format!("min(i, i * i{})", ", i".repeat(1300))
}

#[test]
fn a_long_expression_over_many_elements_is_refused_with_its_place() {
    let text = format!(
        "world_size = 1\nop = \"all_reduce\"\ninputs = {{ each = \"{}\", count = 500000000, dtype = \"u8\" }}\n",
        long_expression()
    );
    let diagnostics = planned(&text, &Limits::default()).unwrap_err();
    let message = messages(&diagnostics);
    for word in ["operations to work out and judge", "limit of 4,000,000,000", "to fill `in`", "`--max-work "] {
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(text.get(diagnostics[0].span.start..diagnostics[0].span.end), Some("inputs"));
    // The number that the help gives is enough.
    let wanted = message.split("--max-work ").nth(1).and_then(|t| t.split('`').next()).unwrap().parse().unwrap();
    assert!(planned(&text, &Limits { work: wanted, ..Limits::default() }).is_ok());
}

#[test]
fn what_repeats_is_computed_once_and_stays_accepted() {
    let text = "world_size = 8\nop = \"all_reduce\"\ninputs = { each = \"rank + i % 7\", count = 16777216 }\n\
        assert = [\"out == 28 + 8 * (i % 7)\"]\n";
    let plan = planned(text, &Limits::default()).map_err(|diagnostics| messages(&diagnostics)).unwrap();
    assert!(plan.cost.memory <= 12 << 30, "{:?}", plan.cost);
    assert!(plan.cost.work <= 2_000_000_000, "{:?}", plan.cost);
}

#[test]
fn asserts_count_for_every_element_rank_and_run() {
    let file = |asserts: usize, more: &str| {
        let list = (0..asserts).map(|k| format!("\"out >= {k} - {k}\"")).collect::<Vec<_>>().join(", ");
        format!(
            "world_size = 2\nop = \"all_reduce\"\ninputs = {{ each = \"i\", count = 1000000 }}\nassert = [{list}]\n{more}\n"
        )
    };
    refused_for(&file(1000, ""), &["operations", "to evaluate this"]);
    let work = |text: &str| planned(text, &Limits::default()).map_err(|f| messages(&f)).unwrap().cost.work;
    let (one, two, runs) = (work(&file(1, "")), work(&file(2, "")), work(&file(1, "repeat = 10")));
    // Five nodes, two ranks, a million elements.
    assert_eq!(two - one, 10_000_000);
    assert!(runs - one >= 9 * 10_000_000, "{runs} {one}");
}

#[test]
fn same_for_every_element_counts_the_whole_buffers() {
    let text = "world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"i\", count = 1000000 }\n\
        assert = [\"same(out, out) * (out == out)\"]\n";
    refused_for(text, &["operations", "to evaluate this"]);
}

#[test]
fn runs_are_counted() {
    let text = "world_size = 1\nop = \"all_reduce\"\ninputs = [[1]]\nrepeat = 1000000\n";
    refused_for(text, &["operations", "1000000 runs", "--max-work"]);
}

#[test]
fn memory_is_that_of_all_copies() {
    // 79 bytes.
    let text = "world_size=2\nop=\"all_reduce\"\ninputs={each=\"i%7\",count=1000000000}\n";
    refused_for(text, &["of memory in all copies", "limit of 16 GiB", " on all ranks", "--max-memory"]);
    let small = text.replace("1000000000", "10000000");
    let limits = Limits { memory: 1 << 28, ..Limits::default() };
    let message = messages(&planned(&small, &limits).unwrap_err());
    assert!(message.contains("limit of 256 MiB"), "{message}");
    let wanted = message.split("--max-memory ").nth(1).and_then(|t| t.split('`').next()).unwrap();
    let memory = Limits::bytes(wanted).unwrap();
    let enough = planned(&small, &Limits { memory, ..limits });
    // The first check counts the images alone; the number that the second message gives is enough.
    if let Err(diagnostics) = enough {
        let message = messages(&diagnostics);
        let wanted = message.split("--max-memory ").nth(1).and_then(|t| t.split('`').next()).unwrap();
        assert!(planned(&small, &Limits { memory: Limits::bytes(wanted).unwrap(), ..limits }).is_ok(), "{message}");
    }
}

#[test]
fn many_small_buffers_on_many_ranks_are_refused_before_they_are_made() {
    let names: Vec<String> = (0..20_000).map(|k| format!("b{k}")).collect();
    let inputs: String = names.iter().map(|n| format!("inputs.{n}={{each=1,count=1}}\n")).collect();
    let expect: String = names.iter().map(|n| format!("expect.{n}=\"any\"\n")).collect();
    let text = format!("world_size=1024\nsteps=[{{op=\"barrier\"}}]\n{inputs}{expect}");
    refused_for(&text, &["20002 buffers on 1024 ranks"]);
    let few: String = names.iter().take(1000).map(|n| format!("inputs.{n}={{each=1,count=1}}\n")).collect();
    let expect: String = names.iter().take(1000).map(|n| format!("expect.{n}=\"any\"\n")).collect();
    refused_for(&format!("world_size=1024\nsteps=[{{op=\"barrier\"}}]\n{few}{expect}"), &["of memory in all copies"]);
}

#[test]
fn numbers_of_steps_are_counted_too() {
    let long = format!("min(rank{})", ", 0".repeat(1300));
    let text = format!(
        "world_size = 1024\ninputs.x = [[1]]\nsteps = [{{ op = \"loop\", times = 100000, steps = [{{ op = \"all_reduce\", \
         ranks = \"{long}\", in = \"x\", out = \"x\" }}] }}]\n"
    )
    .replace("[[1]]", "{ each = 1, count = 1 }");
    let message = messages(&planned(&text, &Limits { work: 20_000_000, ..Limits::default() }).unwrap_err());
    assert!(message.contains("operations") && message.contains("the numbers of this step"), "{message}");
    // Steps that no rank runs are limited as well.
    let steps = vec!["{ op = \"barrier\", ranks = \"rank > 5\" }"; 1000].join(", ");
    let text = format!("world_size = 2\nsteps = [{{ op = \"loop\", times = 100000, steps = [{steps}] }}]\n");
    refused_for(&text, &["the limit is 200,000"]);
}

#[test]
#[ignore = "slow"]
fn expressions_of_all_calls_are_bounded() {
    let text = format!(
        "world_size = 1\ninputs.x = [[1]]\nsteps = [{{ op = \"map\", times = 150000, expr = \"max(x{})\", out = \"y\" }}]\n",
        ", x".repeat(1300)
    );
    refused_for(&text, &["of memory in all copies", "expressions of all calls"]);
}

#[test]
fn communicators_and_streams_are_bounded() {
    let comms: String = (0..1000).map(|k| format!("comms.c{k} = {{ color = 0 }}\n")).collect();
    let steps: String = (0..1000).map(|k| format!("{{ op = \"barrier\", comm = \"c{k}\" }},\n")).collect();
    refused_for(&format!("world_size = 1024\nsteps = [\n{steps}]\n{comms}"), &["the limit is 200,000"]);
    let steps: String = (0..300).map(|k| format!("{{ op = \"barrier\", stream = \"s{k}\" }},\n")).collect();
    refused_for(&format!("world_size = 1\nsteps = [\n{steps}]\n"), &["more than 256 streams"]);
}

#[test]
fn copies_that_only_the_data_makes_necessary_are_counted() {
    // Every round's result rounds and is read by the next: each is kept until the case is judged.
    let text = "world_size = 3\ninputs.x = { each = \"0.1 * (i % 5 + rank)\", count = 20000 }\n\
        steps = [{ op = \"all_reduce\", reduce = \"avg\", in = \"x\", out = \"x\", times = 200 }]\n";
    let limits = Limits { memory: 40 << 20, ..Limits::default() };
    let plan = planned(text, &limits).map_err(|f| messages(&f)).unwrap();
    let message = messages(&Forecast::new(&plan, 0).unwrap_err());
    assert!(message.contains("copies of results that are used or overwritten later"), "{message}");
}

#[test]
fn exclude_is_looked_up_and_bounded() {
    let values = (0..2000).map(|k| k.to_string()).collect::<Vec<_>>().join(",");
    let axes = format!(
        "world_size = 1\nop = \"all_reduce\"\ninputs = {{ each = \"a + b\", count = 1 }}\n[matrix]\na = [{values}]\nb = [0,1,2,3,4,5,6,7,8,9]\n"
    );
    // One table that names almost all: 20,000 combinations, 2,000 values.
    let most = (1..2000).map(|k| k.to_string()).collect::<Vec<_>>().join(",");
    assert_eq!(
        parsed(&format!("{axes}exclude = [{{ a = [{most}] }}]\n")).map(|c| c.len()).map_err(|f| messages(&f)),
        Ok(10)
    );
    // The same in 20,000 tables.
    let many: String = (0..1999).flat_map(|a| (0..10).map(move |b| format!("{{a={a},b={b}}},"))).collect();
    let message = messages(&parsed(&format!("{axes}exclude = [{many}]\n")).unwrap_err());
    assert!(message.contains("`exclude` has 39980 conditions for 20000 combinations"), "{message}");
    // A table that is written often counts once.
    let twice = "{ a = 5 },".repeat(20_000);
    assert_eq!(parsed(&format!("{axes}exclude = [{twice}]\n")).map(|c| c.len()).map_err(|f| messages(&f)), Ok(19_990));
}

#[test]
fn long_texts_count_for_every_case() {
    let text = "x".repeat(229_000);
    let values = (0..2000).map(|k| k.to_string()).collect::<Vec<_>>().join(",");
    let file = |top: &str, axis: &str| {
        format!(
            "world_size = 1\nop = \"all_reduce\"\ninputs = {{ each = \"a\", count = 1 }}\n{top}\n[matrix]\na = [{values}]\n{axis}\n"
        )
    };
    for (top, axis) in [
        (format!("description = \"{text}\""), String::new()),
        (format!("env.NCCL_ALGO = \"{text}\""), String::new()),
        (String::new(), format!("description = [\"{text}\", \"b\"]")),
    ] {
        let message = messages(&parsed(&file(&top, &axis)).unwrap_err());
        assert!(message.contains("are too much to read"), "{message}");
    }
    assert!(parsed(&file("description = \"short\"", "")).is_ok());
}

#[test]
fn a_file_of_faults_shows_some_of_them() {
    let long = "9".repeat(40);
    let numbers = format!("world_size = 1\na = [{}]\n", vec![long.as_str(); 20_000].join(","));
    let keys: String = (0..50_000).map(|k| format!("k{k} = 1\n")).collect();
    let unused: String = (0..30_000).map(|k| format!("inputs.b{k} = [[1]]\n")).collect();
    let broken = "= [\n".repeat(100_000);
    let excluded =
        format!("op = \"all_reduce\"\n[matrix]\nworld_size = [1]\nexclude = [{}]\n", "{ x = 1 },".repeat(50_000));
    for text in [numbers, keys, format!("world_size = 1\nsteps = [{{ op = \"barrier\" }}]\n{unused}"), broken, excluded]
    {
        let diagnostics = parsed(&text).unwrap_err();
        assert!((1..=100).contains(&diagnostics.len()), "{}", diagnostics.len());
        let file = SourceFile { path: "x.toml".into(), text: text.into() };
        let shown = scenario::render(&file, &diagnostics, false);
        assert!(shown.len() < 200_000, "{}", shown.len());
    }
}

/// A child whose address space is limited to this many KiB.
fn bounded(kib: u64, home: &Home, args: &[&str]) -> Command {
    let mut inner = home.command(args);
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -v {kib}; exec \"$0\" \"$@\"")).arg(inner.get_program());
    command.args(inner.get_args());
    if let Some(folder) = inner.get_current_dir() {
        command.current_dir(folder);
    }
    // One heap, so that address space is what is used.
    command.env("MALLOC_ARENA_MAX", "1");
    inner.stdin(Stdio::null());
    command
}

/// A sequence of numbers that is the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len() as u64) as usize]
    }
}

/// A small file that asks for much.
fn greedy(dice: &mut Dice) -> String {
    let count = 10u64.pow(dice.roll(10) as u32) * (1 + dice.roll(9));
    let ranks = [1, 2, 3, 8, 64, 1024][dice.roll(6) as usize];
    let dtype = dice.pick(&["f32", "f64", "u8", "f8e4m3", "bf16", "i64"]);
    let each = match dice.roll(5) {
        0 => "rank + i % 7".to_owned(),
        1 => "i".to_owned(),
        2 => "0.1 * i + rank".to_owned(),
        3 => "if(i % 2, 0.1 * i, 1)".to_owned(),
        _ => long_expression(),
    };
    let times = 10u64.pow(dice.roll(6) as u32);
    let reduce = dice.pick(&["sum", "prod", "avg", "max"]);
    let step = match dice.roll(5) {
        0 => format!("{{ op = \"all_reduce\", reduce = \"{reduce}\", in = \"x\", out = \"x\", times = {times} }}"),
        1 => "{ op = \"all_gather\", in = \"x\", out = \"y\" }".to_owned(),
        2 => format!("{{ op = \"map\", expr = \"x * 2 + x[0]\", out = \"y\", times = {times} }}"),
        3 => "{ op = \"all_to_all_v\", in = \"x\", counts = \"rank + peer\", out = \"y\" }".to_owned(),
        _ => format!(
            "{{ op = \"send_recv\", to = \"(rank + 1) % n\", from = \"(rank + n - 1) % n\", in = \"x\", out = \"y\", times = {times} }}"
        ),
    };
    let asserts = vec!["\"x == x\""; dice.roll(300) as usize].join(", ");
    let repeat = 1 + dice.roll(3) * 1000;
    format!(
        "world_size = {ranks}\ninputs.x = {{ each = \"{each}\", count = {count}, dtype = \"{dtype}\" }}\nsteps = [{step}]\n\
         assert = [{asserts}]\nrepeat = {repeat}\nexpect.x = {{ each = \"{each}\" }}\n"
    )
}

#[test]
#[ignore = "slow"]
fn greedy_files_are_refused_or_keep_to_what_is_announced() {
    let home = Home::new();
    let mut dice = Dice(1);
    for k in 0..60 {
        home.file(&format!("s/f{k}.toml"), &greedy(&mut dice));
    }
    // Address space for the limit, and as much again for the program, its threads' stacks, and a plan of 200,000 calls.
    let args = ["check", "s", "--max-memory", "384MiB", "--max-work", "20000000"];
    let output = bounded(1 << 20, &home, &args).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("raises the limit"), "{err}");
    let out = String::from_utf8_lossy(&output.stdout);
    let accepted = out.lines().filter(|line| line.contains("completes")).count();
    assert!(accepted > 0, "{out}\n{err}");
}

#[test]
fn the_command_says_what_raises_the_limits() {
    let home = Home::new();
    home.file("a.toml", "world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"i\", count = 100000 }\n");
    let run = home.run(&["check", "a.toml", "--max-work", "1000"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("a.toml:2:6") && run.err.contains("--max-work "), "{}", run.err);
    let run = home.run(&["run", "a.toml", "--max-memory", "1MiB"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("more than the limit of 1 MiB") && run.err.contains("--max-memory "), "{}", run.err);
    let run = home.run(&["check", "a.toml", "--max-file", "10"]);
    assert!(run.err.contains("larger than 10 bytes"), "{}", run.err);
    assert_eq!(home.run(&["run", "a.toml"]).code, 0);
}

/// 200 cases, each of which is below the limit of a case.
fn sweep(each: &str, count: u64) -> String {
    let seeds: Vec<String> = (1..=200).map(|seed| seed.to_string()).collect();
    format!(
        "world_size = 2\nop = \"all_reduce\"\ninputs = {{ each = \"{each}\", count = {count}, dtype = \"f64\" }}\n\
         matrix.seed = [{}]\n",
        seeds.join(", ")
    )
}

#[test]
fn the_cases_of_a_file_have_a_limit_together() {
    let home = Home::new();
    home.file("s/sweep.toml", &sweep("sin(i * seed + rank)", 1000));
    home.file("s/other.toml", "world_size = 2\nop = \"all_reduce\"\ninputs = [[1], [2]]\n");
    for command in ["check", "run", "audit"] {
        let run = home.run(&[command, "s", "--max-file-work", "1_000_000"]);
        assert_eq!(run.code, 2, "{command}: {}", run.err);
        let words = [
            "the 200 cases of this file together take more than 1,000,000 operations",
            "`--max-file-work N`",
            "sweep.toml",
        ];
        assert!(words.iter().all(|word| run.err.contains(word)), "{command}: {}", run.err);
        assert!(!run.err.contains("other.toml"), "{command}: {}", run.err);
    }
    let run = home.run(&["check", "s"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let few = ["check", "s", "--max-file-work", "1_000_000", "--filter", "seed=7]"];
    let run = home.run(&few);
    assert_eq!(run.code, 0, "only what is selected counts: {}", run.err);
}

#[test]
fn a_small_file_with_many_large_cases_is_refused() {
    let home = Home::new();
    home.file("sweep.toml", &sweep(&format!("sin(i * seed + rank{})", " + i".repeat(50)), 1_000_000));
    let run = home.run(&["check", "sweep.toml"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("more than 20,000,000,000 operations"), "{}", run.err);
}
