"""Which paths lead from one tensor to another, by derivatives and by values, where they are lost, which are linear."""
