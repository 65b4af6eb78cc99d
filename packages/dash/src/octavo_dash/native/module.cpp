// The compiled part of octavo_dash: plain arrays in, plain arrays filled. It knows NumPy's and torch's memory through
// DLPack and links against neither.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "backward.h"
#include "longest_path.h"

namespace nb = nanobind;
using namespace octavo;

template <typename T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;
template <typename T>
using Column = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

struct Layout {
    Column<const std::int64_t> cu_q, cu_k;
    int heads, heads_kv, head_dim, left, right, block_m, block_n;

    Shape shape() const {
        return {cu_q.data(), cu_k.data(), int(cu_q.shape(0)) - 1, heads, heads_kv, head_dim, left, right, block_m, block_n};
    }
};

struct Tables {
    Column<const std::int32_t> head, kv, q, wait;
    Column<const std::int64_t> unit_start, lane_start, lane_task;
    bool claim;
};

// Four arrays of times and one of threads, or an empty list.
inline Stamps stamps_of(const nb::list& arrays) {
    if (!arrays.size()) return {};
    const auto times = [&](int i) { return nb::cast<Column<double>>(arrays[i]).data(); };
    return {times(0), times(1), times(2), times(3), nb::cast<Column<std::int32_t>>(arrays[4]).data()};
}

template <typename T>
void bind(nb::module_& m) {
    m.def(
        "forward",
        [](const Layout& layout, Array<const T> q, Array<const T> k, Array<const T> v, Array<T> out, Array<T> lse,
           double scale, int threads) {
            nb::gil_scoped_release unlocked;
            forward<T>(layout.shape(), q.data(), k.data(), v.data(), out.data(), lse.data(), T(scale), threads);
        },
        nb::arg("layout"), nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("out"), nb::arg("lse"), nb::arg("scale"),
        nb::arg("threads"));
    m.def(
        "backward",
        [](const Layout& layout, const Tables& t, Array<const T> q, Array<const T> k, Array<const T> v,
           Array<const T> out, Array<const T> dout, Array<const T> lse, Array<const T> dlse, Array<T> dq, Array<T> dk,
           Array<T> dv, double scale, int threads, bool deterministic, unsigned jitter, nb::list stamps) {
            const Stamps wanted = stamps_of(stamps);
            nb::gil_scoped_release unlocked;
            const Shape shape = layout.shape();
            const Plan plan{t.head.data(), t.kv.data(), t.q.data(), t.wait.data(), t.unit_start.data(),
                            t.lane_start.data(), t.lane_task.data(), std::int64_t(t.head.shape(0)),
                            std::int64_t(t.unit_start.shape(0)) - 1, std::int64_t(t.lane_start.shape(0)) - 1, t.claim, deterministic, jitter, wanted};
            Backward<T>(shape, q.data(), k.data(), v.data(), out.data(), dout.data(), lse.data(), dlse.data(), T(scale),
                        plan, threads)
                .run(dq.data(), dk.data(), dv.data());
        },
        nb::arg("layout"), nb::arg("tables"), nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("out"), nb::arg("dout"),
        nb::arg("lse"), nb::arg("dlse"), nb::arg("dq"), nb::arg("dk"), nb::arg("dv"), nb::arg("scale"), nb::arg("threads"),
        nb::arg("deterministic"), nb::arg("jitter"), nb::arg("stamps"));
}

NB_MODULE(_native, m) {
    nb::class_<Layout>(m, "Layout")
        .def(nb::init<Column<const std::int64_t>, Column<const std::int64_t>, int, int, int, int, int, int, int>(),
             nb::arg("cu_q"), nb::arg("cu_k"), nb::arg("heads"), nb::arg("heads_kv"), nb::arg("head_dim"),
             nb::arg("left"), nb::arg("right"), nb::arg("block_m"), nb::arg("block_n"));
    nb::class_<Tables>(m, "Tables")
        .def(nb::init<Column<const std::int32_t>, Column<const std::int32_t>, Column<const std::int32_t>,
                      Column<const std::int32_t>, Column<const std::int64_t>, Column<const std::int64_t>,
                      Column<const std::int64_t>, bool>(),
             nb::arg("head"), nb::arg("kv"), nb::arg("q"), nb::arg("wait"), nb::arg("unit_start"),
             nb::arg("lane_start"), nb::arg("lane_task"), nb::arg("claim"));
    bind<float>(m);
    bind<double>(m);
    m.def(
        "run_fixed",
        [](Column<const std::int64_t> worker_start, Column<const std::int64_t> worker_tasks,
           Column<const std::int64_t> dq_before, Column<const std::int64_t> dkv_before, double compute, double reduce,
           double sync, Column<double> start, Column<double> reduce_start, Column<double> end) {
            nb::gil_scoped_release unlocked;
            run_fixed(worker_start.data(), std::int64_t(worker_start.shape(0)) - 1, worker_tasks.data(),
                             dq_before.data(), dkv_before.shape(0) ? dkv_before.data() : nullptr,
                             {compute, reduce, sync}, {start.data(), reduce_start.data(), end.data()});
        });
    m.def("run_dynamic",
          [](Column<const std::int64_t> unit_start, std::int64_t workers, Column<const std::int64_t> dq_before,
             double compute, double reduce, double sync, Column<double> start, Column<double> reduce_start,
             Column<double> end, Column<std::int32_t> unit_worker) {
              nb::gil_scoped_release unlocked;
              run_dynamic(unit_start.data(), std::int64_t(unit_start.shape(0)) - 1, workers, dq_before.data(),
                                 {compute, reduce, sync}, {start.data(), reduce_start.data(), end.data()},
                                 unit_worker.data());
          });
}
