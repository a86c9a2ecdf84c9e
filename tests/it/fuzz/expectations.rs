//! A program's results, written into its file as `expect`, pass; with one element changed they fail.
use super::programs::{open, runner, verdicts};
use super::{amount, first_seed};
use collspec_cli::soak::{Program, Rng};
use collspec_core::judge::{Lane, OutputRows, Status, Verdict};
use serde_json::Value;

/// An element as TOML has it.
fn toml_element(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(), // nan, inf, -inf
        Value::Number(number) if number.is_u64() && number.as_i64().is_none() => format!("\"{number}\""),
        other => other.to_string(),
    }
}

/// Another number of the same type.
fn changed(value: &Value) -> Value {
    match value {
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(whole), ..) if whole > 0 => Value::from(whole - 1),
            (Some(whole), ..) => Value::from(whole + 1),
            (_, Some(whole), _) => Value::from(whole - 1),
            (_, _, Some(float)) if float != 0.0 => Value::from(-float),
            _ => Value::from(1.0),
        },
        _ => Value::from(1.0),
    }
}

fn toml_rows(rows: &[Option<Vec<Value>>]) -> String {
    let row = |row: &Option<Vec<Value>>| match row {
        None => "\"any\"".to_owned(),
        Some(elements) => format!("[{}]", elements.iter().map(toml_element).collect::<Vec<_>>().join(", ")),
    };
    rows.iter().map(row).collect::<Vec<_>>().join(", ")
}

fn with_expect(program: &Program, outputs: &OutputRows) -> Program {
    let mut program = program.clone();
    let lines = outputs.iter().map(|(name, ranks)| format!("expect.{name} = [{}]", toml_rows(ranks)));
    program.head.splice(0..0, lines);
    program
}

/// One element of the outputs changed; `None` if there is none.
fn with_one_element_changed(rng: &mut Rng, outputs: &OutputRows) -> Option<OutputRows> {
    let mut outputs = outputs.clone();
    let mut places: Vec<&mut Value> =
        outputs.iter_mut().flat_map(|(_, ranks)| ranks).flatten().flat_map(|row| row.iter_mut()).collect();
    let at = rng.below(places.len());
    let place = places.get_mut(at)?;
    **place = changed(place);
    Some(outputs)
}

/// One right value everywhere, so that another run gives the same.
fn is_exact(verdict: &Verdict) -> bool {
    verdict.status == Status::Pass && verdict.lanes.iter().all(|l| !matches!(l.lane, Lane::Admissible | Lane::Bounded))
}

#[test]
#[ignore = "slow"]
fn expectations_tell_right_from_wrong() {
    let first = first_seed();
    let (mut right, mut wrong) = (Vec::new(), Vec::new());
    let programs: Vec<Program> = (first..first + amount(150)).map(Program::generate).collect();
    for programs in programs.chunks(100) {
        let suite = open(programs, "none");
        for (case, verdict) in suite.cases.iter().zip(verdicts(&suite, &runner(first))) {
            let own = |program: &&Program| case.file.path.ends_with(&format!("/{}.toml", program.seed));
            let (Some(program), Some(outputs)) = (programs.iter().find(own), verdict.outputs.as_ref()) else {
                continue;
            };
            // After an abort contents are undefined, so nothing is compared.
            if !is_exact(&verdict) || case.file.text.contains("abort") {
                continue;
            }
            right.push(with_expect(program, outputs));
            let spoiled = with_one_element_changed(&mut Rng::new(program.seed), outputs);
            wrong.extend(spoiled.map(|outputs| with_expect(program, &outputs)));
        }
    }
    assert!(right.len() * 4 > programs.len() && !wrong.is_empty(), "few programs have one right result");
    for (programs, status) in [(right, Status::Pass), (wrong, Status::Fail)] {
        for programs in programs.chunks(100) {
            let suite = open(programs, "none");
            let shown: Vec<String> = suite.invalid_files.iter().map(|faulty| faulty.render(false)).collect();
            assert!(shown.is_empty(), "{}", shown.join("\n"));
            for (case, verdict) in suite.cases.iter().zip(verdicts(&suite, &runner(first))) {
                let expected = verdict.lanes.iter().any(|lane| lane.lane == Lane::Expected && !lane.pass);
                let right = verdict.status == status && expected == (status == Status::Fail);
                let text: String = case.file.text.chars().take(4000).collect();
                assert!(right, "{}: {:?}\n{text}", case.name, verdict.reason);
            }
        }
    }
}
