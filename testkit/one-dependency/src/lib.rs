//! Nothing: the programs are the tests, whose only dependency is `xsched`.
