"""Tables from op type to function: the decorator that fills one."""


def registering(table):
    """Return a decorator `@rule(*op_types)` that enters the function it decorates into `table` under each op type."""

    def rule(*op_types):
        def register(function):
            table.update(dict.fromkeys(op_types, function))
            return function

        return register

    return rule
