"""A multi-node start that can be pasted: snapshots and a wish -> `plan.LaunchPlan` -> text, one emitter a framework."""
