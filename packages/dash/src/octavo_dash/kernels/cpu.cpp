#include <nanobind/nanobind.h>
NB_MODULE(_cpu, m) { m.def("ping", []() { return 1; }); }
