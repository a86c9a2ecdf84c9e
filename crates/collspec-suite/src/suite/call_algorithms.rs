//! Passes the algorithms that steps ask for to the library: through each call's configuration, or, if the library lacks those
//! functions and all steps ask for the same, through NCCL_ALGO and NCCL_PROTO. Otherwise the case is skipped.
use super::Runner;
use collspec_core::ops::{AlgorithmVariables, Collective, NcclCall};
use collspec_core::scenario::{
    Case, CollectiveStep, EnvValue, EnvVar, Spanned, Step, StepAlgorithm, StepKind, all_steps,
};
use collspec_run::backend::version_text;
use collspec_run::run::Machine;
use nccl_sys::{Maker, Nccl};
use std::sync::Arc;

const VARIABLES: [&str; 2] = ["NCCL_ALGO", "NCCL_PROTO"];

/// The collectives of a case that have a choice of algorithms or request one.
fn collectives(case: &Case) -> Vec<(&'static Collective, &Step)> {
    all_steps(&case.steps)
        .filter_map(|step| Some((step.op.kind.collective()?, step)))
        .filter(|(collective, step)| !collective.algorithms.is_empty() || step.algorithm().is_some())
        .collect()
}

/// The algorithm that a step asks for; `None` if it leaves the choice to the library.
fn asked(step: &Step) -> Option<&StepAlgorithm> {
    step.algorithm().filter(|algorithm| !algorithm.choice.is_automatic())
}

impl Runner {
    /// The case with its algorithms requested in a way that this library understands.
    ///
    /// # Errors
    ///
    /// The reason to skip the case.
    pub(super) fn with_algorithms(&self, case: &Arc<Case>) -> Result<Arc<Case>, String> {
        let steps = collectives(case);
        if steps.iter().all(|(_, step)| step.algorithm().is_none()) {
            return Ok(case.clone());
        }
        if let Some(name) = self.forced_from_outside(case).filter(|_| steps.iter().any(|(_, s)| asked(s).is_some())) {
            return Err(format!(
                "{name} is set outside of the file and takes precedence over the algorithms that its steps ask for"
            ));
        }
        let software = self.machine().is_none_or(|machine| machine.probed.maker == Maker::Collspec);
        if let Some(reason) = steps.iter().find_map(|(op, step)| not_in_software(op.call, step).filter(|_| software)) {
            return Err(reason);
        }
        let Some(machine) = self.machine() else { return Ok(case.clone()) };
        let lacks = |call: NcclCall| !machine.probed.symbols.iter().any(|symbol| symbol == call.symbol_with_config());
        let configured = |step: &Step| step.algorithm().is_some();
        match steps.iter().find(|(op, step)| configured(step) && lacks(op.call)) {
            None => Ok(case.clone()),
            Some((op, _)) => by_variables(case, &steps).map_err(|why| lacking(op.call, why, machine)),
        }
    }

    /// A variable that restricts the algorithms and was not set by the file.
    fn forced_from_outside(&self, case: &Case) -> Option<&'static str> {
        let own = |name: &str| case.env.iter().any(|var| var.name.value == name);
        let given = |name: &str| self.options.variables.iter().any(|(set, value)| set == name && !value.is_empty());
        let inherited = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        VARIABLES.into_iter().find(|name| !own(name) && (given(name) || inherited(name)))
    }
}

/// The reason the software library cannot satisfy a step that insists on an algorithm and does not expect a failure.
fn not_in_software(call: NcclCall, step: &Step) -> Option<String> {
    let algorithm = asked(step).filter(|algorithm| algorithm.choice.force && step.error.is_none())?;
    let names = algorithm.choice.admitted(call).ok()?;
    let has = |name: &str| ["RING_", "TREE_"].iter().any(|start| name.starts_with(start));
    let selection = &algorithm.choice.selection;
    let lacks = !names.iter().any(|name| has(name.name));
    lacks.then(|| format!("needs the algorithm {selection}; the software library has rings and trees only"))
}

fn lacking(call: NcclCall, why: &str, machine: &Machine) -> String {
    let name = call.symbol_with_config();
    let since = Nccl::SYMBOLS.iter().find(|(symbol, _)| *symbol == name).map_or("?", |(_, since)| since);
    format!("needs {name} (since NCCL {since}), because {why}; this is {}", version_text(machine.probed.version))
}

/// The case with variables that request the algorithm that all its steps ask for.
fn by_variables(case: &Case, steps: &[(&'static Collective, &Step)]) -> Result<Arc<Case>, &'static str> {
    let mut all: Option<Option<AlgorithmVariables>> = None;
    for (op, step) in steps {
        if step.error.is_some() && asked(step).is_some() {
            return Err("a step expects that the call is refused for its algorithm");
        }
        let wanted = match asked(step) {
            None if op.algorithms.is_empty() => continue,
            None => None,
            Some(algorithm) if op.algorithms.is_empty() && !algorithm.choice.force => continue,
            Some(algorithm) if !algorithm.choice.force => {
                return Err("a step prefers an algorithm, which NCCL_ALGO cannot say");
            }
            Some(algorithm) => {
                let variables = algorithm.choice.variables(op.call);
                Some(variables.ok_or("NCCL_ALGO and NCCL_PROTO cannot say what a step asks for")?)
            }
        };
        match &all {
            Some(known) if *known != wanted => return Err("its steps do not all ask for the same algorithm"),
            _ => all = Some(wanted),
        }
    }
    let mut case = case.clone();
    mark(&mut case.steps);
    let own = VARIABLES.iter().any(|name| case.env.iter().any(|var| var.name.value == *name));
    if let Some(variables) = all.flatten().filter(|_| !own) {
        let values = [Some(variables.algorithms), variables.protocols];
        for (name, value) in VARIABLES.into_iter().zip(values) {
            let name = Spanned { span: case.span, value: name.to_owned() };
            case.env.extend(value.map(|value| EnvVar { name, value: EnvValue::All(value) }));
        }
    }
    Ok(Arc::new(case))
}

fn mark(steps: &mut [Step]) {
    for step in steps {
        match &mut step.kind {
            StepKind::Collective(CollectiveStep { algorithm: Some(algorithm), .. }) => algorithm.by_variables = true,
            _ => mark(step.inner_mut()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use collspec_core::scenario::{self, SourceFile};

    /// The variables that replace the calls' configurations, or the reason they cannot.
    fn variables(steps: &str) -> Result<Vec<(String, String)>, &'static str> {
        let text = format!("world_size = 2\ninputs.x = [[1, 2], [3, 4]]\nsteps = [\n{steps}\n]\n");
        let file = Arc::new(SourceFile { path: "a.toml".into(), text: text.into() });
        let case = &scenario::parse(&file, "a").unwrap()[0];
        let made = by_variables(case, &collectives(case))?;
        assert!(made.steps.iter().filter_map(Step::algorithm).all(|asked| asked.by_variables));
        let text = |value: &EnvValue| match value {
            EnvValue::All(text) => text.clone(),
            EnvValue::PerRank(texts) => texts.join("|"),
        };
        Ok(made.env.iter().map(|var| (var.name.value.clone(), text(&var.value))).collect())
    }

    #[test]
    fn steps_that_agree_are_served_by_variables() {
        let sum = |algorithm: &str| format!("{{ op = 'all_reduce', in = 'x', out = 'y', algorithm = {algorithm} }},\n");
        let ring = [("NCCL_ALGO".to_owned(), "Ring".to_owned())];
        let simple = [ring[0].clone(), ("NCCL_PROTO".to_owned(), "Simple".to_owned())];
        assert_eq!(variables(&sum("'ring'")).unwrap(), ring);
        let gather = "{ op = 'all_gather', in = 'x', out = 'z', algorithm = 'ring_simple' },\n";
        assert_eq!(variables(&(sum("'ring_simple'") + gather)).unwrap(), simple);
        assert_eq!(variables(&sum("'auto'")).unwrap(), []);
        let others = "{ op = 'scatter', in = 'x', out = 's', algorithm = { prefer = 'ring' } },\n";
        assert_eq!(variables(&(sum("'ring'") + others)).unwrap(), ring);
        assert!(variables(&(sum("'ring'") + &sum("'tree'"))).unwrap_err().contains("the same"));
        assert!(variables(&(sum("'ring'") + "{ op = 'barrier' }")).unwrap_err().contains("the same"));
        assert!(variables(&sum("{ prefer = 'ring' }")).unwrap_err().contains("prefers"));
        assert!(variables(&sum("'ring_ll,tree_simple'")).unwrap_err().contains("cannot say"));
        let refused = "{ op = 'all_gather', in = 'x', out = 'z', algorithm = 'tree', error = 'invalid_argument' },\n";
        assert!(variables(refused).unwrap_err().contains("refused"));
    }
}
