"""LaunchPlan -> text, one framework a module: `emit(plan) -> Emission`; what it cannot say, `CannotEmit` refuses."""
