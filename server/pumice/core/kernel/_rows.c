/* What a class of tasks makes of rows of the node table, in one pass.
 *
 * The same arithmetic as the NumPy of session/views.py, session/batch.py and the plugins' row
 * functions, operation for operation, so that both give the same bits. It is compiled without
 * contraction of products and sums for that reason. Everything is checked for its size before it
 * is touched; what the numbers mean is up to program.py.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Grows with every change of what the functions take or give: an old build is not used. */
#define VERSION 6
#define BLOCK 64
/* So many neighbouring rows are judged at once; a block is a multiple of it. */
#define LANES 16

/* Positions in the plan, which program.py writes. */
enum { NEEDS, PODS_LIMIT, PODS, SCORES, CAP_CPU, CAP_MEMORY, NON_ZERO_CPU, NON_ZERO_MEMORY,
       USED_CPU, USED_MEMORY, CAP_CARDS, USED_CARDS, PACKED, PLAN_HEAD };
/* Positions in the numbers. */
enum { ASKS_NON_ZERO_CPU, ASKS_NON_ZERO_MEMORY, ASKS_CPU, ASKS_MEMORY, ASKS_CARDS, LEAST, MOST,
       BALANCED, PACK_DIVISOR, PACK_FACTOR, NUMBERS_HEAD };
/* Up to here a hundredfold is a whole number in floats, and the floor of a quotient is exact. */
#define EXACT_BELOW 70368744177664.0

typedef struct {
    const double *amounts, *offered, *static_order, *numbers, *weights;
    /* By row: how many more tasks it takes at most; NULL: no limit. */
    const double *limits;
    /* By row: where its scores with no, one, two … more tasks begin in steps; NULL: none. */
    const int64_t *places;
    const double *steps;
    Py_ssize_t step_count;
    const uint8_t *static_ok;
    const int64_t *plan;
    const int64_t *need_idle, *need_future, *pack_used, *pack_offered;
    const double *needs, *pack_asks, *pack_weights;
    Py_ssize_t rows, amount_rows, offered_rows;
} Program;

typedef struct {
    uint8_t fits_idle, fits_future, open;
    double order, batch, total;
} Verdict;

static int get(PyObject *object, Py_buffer *view, Py_ssize_t itemsize, int writable)
{
    int flags = PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, view, flags) < 0)
        return -1;
    if (view->itemsize != itemsize) {
        PyBuffer_Release(view);
        PyErr_SetString(PyExc_TypeError, "an array has elements of the wrong size");
        return -1;
    }
    return 0;
}

static void release(Py_buffer *views, int count)
{
    for (int i = 0; i < count; i++)
        PyBuffer_Release(&views[i]);
}

/* amounts, offered, static_ok, static_order, plan, numbers, weights, limits, places and steps (empty:
 * none) */
#define PROGRAM_PARTS 10

static int in_range(const int64_t *values, int64_t count, Py_ssize_t below)
{
    for (int64_t i = 0; i < count; i++)
        if (values[i] < 0 || values[i] >= below)
            return 0;
    return 1;
}

static int check(Program *p, const Py_buffer *views)
{
    const int64_t *plan = p->plan;
    Py_ssize_t plan_size = views[4].len / 8, number_count = views[5].len / 8;
    int64_t needs, packed;
    if (!p->rows || plan_size < PLAN_HEAD || number_count < NUMBERS_HEAD)
        return 0;
    needs = plan[NEEDS];
    packed = plan[PACKED];
    if (needs < 0 || packed < 0 || plan_size != PLAN_HEAD + 2 * (needs + packed)
        || number_count != NUMBERS_HEAD + needs + 2 * packed)
        return 0;
    p->amount_rows = views[0].len / 8 / p->rows;
    p->offered_rows = views[1].len / 8 / p->rows;
    if (views[3].len / 8 != p->rows || views[6].len / 8 != p->amount_rows
        || (views[7].len && views[7].len / 8 != p->rows)
        || (views[8].len && (views[8].len / 8 != p->rows || !views[7].len)))
        return 0;
    p->need_idle = plan + PLAN_HEAD;
    p->need_future = p->need_idle + needs;
    p->pack_used = p->need_future + needs;
    p->pack_offered = p->pack_used + packed;
    p->needs = p->numbers + NUMBERS_HEAD;
    p->pack_asks = p->needs + needs;
    p->pack_weights = p->pack_asks + packed;
    if (plan[PODS_LIMIT] >= 0
        && !(in_range(plan + PODS_LIMIT, 1, p->offered_rows)
             && in_range(plan + PODS, 1, p->amount_rows)))
        return 0;
    if (plan[SCORES]
        && !(in_range(plan + CAP_CPU, 2, p->offered_rows)
             && in_range(plan + NON_ZERO_CPU, 4, p->amount_rows)))
        return 0;
    if (plan[CAP_CARDS] >= 0
        && !(in_range(plan + CAP_CARDS, 1, p->offered_rows)
             && in_range(plan + USED_CARDS, 1, p->amount_rows)))
        return 0;
    return in_range(p->need_idle, 2 * needs, p->amount_rows)
           && in_range(p->pack_used, packed, p->amount_rows)
           && in_range(p->pack_offered, packed, p->offered_rows);
}

static int open_program(PyObject *parts, Program *p, Py_buffer *views)
{
    static const Py_ssize_t sizes[PROGRAM_PARTS] = {8, 8, 1, 8, 8, 8, 8, 8, 8, 8};
    if (!PyTuple_Check(parts) || PyTuple_Size(parts) != PROGRAM_PARTS) {
        PyErr_SetString(PyExc_TypeError, "a program is a tuple of ten arrays");
        return -1;
    }
    for (int i = 0; i < PROGRAM_PARTS; i++)
        if (get(PyTuple_GetItem(parts, i), &views[i], sizes[i], 0) < 0) {
            release(views, i);
            return -1;
        }
    memset(p, 0, sizeof *p);
    p->amounts = views[0].buf;
    p->offered = views[1].buf;
    p->static_ok = views[2].buf;
    p->static_order = views[3].buf;
    p->plan = views[4].buf;
    p->numbers = views[5].buf;
    p->weights = views[6].buf;
    p->limits = views[7].len ? views[7].buf : NULL;
    p->places = views[8].len ? views[8].buf : NULL;
    p->steps = views[9].buf;
    p->step_count = views[9].len / 8;
    p->rows = views[2].len;
    if (!check(p, views)) {
        release(views, PROGRAM_PARTS);
        PyErr_SetString(PyExc_ValueError, "the arrays of a program do not belong together");
        return -1;
    }
    return 0;
}

static inline double amount(const Program *p, int64_t part, Py_ssize_t row, double ahead)
{
    double is = p->amounts[part * p->rows + row];
    return ahead ? is + p->weights[part] * ahead : is;
}

static inline double offer(const Program *p, int64_t part, Py_ssize_t row)
{
    return p->offered[part * p->rows + row];
}

/* The floor of what is not negative, and far below 2^63. */
static inline double whole(double value)
{
    return (double)(int64_t)value;
}

/* What percentage of a capacity an amount is, cut off; 0 where there is no capacity. */
static inline double percentage(double amount, double capacity)
{
    if (!(capacity > 0.0))
        return 0.0;
    if (capacity < EXACT_BELOW)
        return whole(amount * 100.0 / capacity);
    return (double)((int64_t)amount * 100 / (int64_t)capacity);
}

/* The mean of the percentages of cpu and memory, cut off; a node counts what it has. */
static inline double mean(double cpu, double cpu_capacity, double memory, double memory_capacity)
{
    double sum = percentage(cpu, cpu_capacity) + percentage(memory, memory_capacity);
    return cpu_capacity > 0.0 && memory_capacity > 0.0 ? whole(sum * 0.5) : sum;
}

static inline double fraction(double used, double capacity)
{
    double part = used / capacity;
    return part < 1.0 ? part : 1.0;
}

static inline double evenness_of_two(double one, double other)
{
    return whole((1.0 - fabs(one - other) * 0.5) * 100.0);
}

/* How evenly cpu, memory and cards are used; a node counts what it has. */
static double evenness(const double *used, const double *capacity, int count)
{
    double parts[3] = {0.0, 0.0, 0.0}, total, average, squares = 0.0;
    int known = 0;
    for (int i = 0; i < count; i++)
        if (capacity[i] > 0.0)
            parts[known++] = fraction(used[i], capacity[i]);
    if (known < 2)
        return 100.0;
    if (known == 2)
        return evenness_of_two(parts[0], parts[1]);
    total = parts[0] + parts[1] + parts[2];
    average = total / 3.0;
    for (int i = 0; i < 3; i++)
        squares = squares + (parts[i] - average) * (parts[i] - average);
    return whole((1.0 - sqrt(squares / 3.0)) * 100.0);
}

/* Least, most and balanced allocation, with their weights. */
static double amount_score(const Program *p, Py_ssize_t row, double ahead)
{
    const int64_t *plan = p->plan;
    const double *n = p->numbers;
    double cpu = offer(p, plan[CAP_CPU], row), memory = offer(p, plan[CAP_MEMORY], row);
    double total = 0.0;
    if (n[LEAST] != 0.0 || n[MOST] != 0.0) {
        double free_cpu = cpu - amount(p, plan[NON_ZERO_CPU], row, ahead) - n[ASKS_NON_ZERO_CPU];
        double free_memory =
            memory - amount(p, plan[NON_ZERO_MEMORY], row, ahead) - n[ASKS_NON_ZERO_MEMORY];
        if (n[LEAST] != 0.0)
            total += n[LEAST] * mean(free_cpu > 0.0 ? free_cpu : 0.0, cpu,
                                     free_memory > 0.0 ? free_memory : 0.0, memory);
        if (n[MOST] != 0.0) {
            double used_cpu = cpu - free_cpu, used_memory = memory - free_memory;
            total += n[MOST] * mean(used_cpu < cpu ? used_cpu : cpu, cpu,
                                    used_memory < memory ? used_memory : memory, memory);
        }
    }
    if (n[BALANCED] != 0.0) {
        int count = plan[CAP_CARDS] >= 0 ? 3 : 2;
        double capacity[3] = {cpu, memory, 0.0}, used[3], then[3];
        used[0] = amount(p, plan[USED_CPU], row, ahead);
        used[1] = amount(p, plan[USED_MEMORY], row, ahead);
        used[2] = 0.0;
        if (count == 3) {
            capacity[2] = offer(p, plan[CAP_CARDS], row);
            used[2] = amount(p, plan[USED_CARDS], row, ahead);
        }
        then[0] = used[0] + n[ASKS_CPU];
        then[1] = used[1] + n[ASKS_MEMORY];
        then[2] = used[2] + n[ASKS_CARDS];
        total += n[BALANCED] * (50.0 + whole((50.0 + evenness(then, capacity, count)
                                              - evenness(used, capacity, count)) / 2.0));
    }
    return total;
}

/* How full the row would be, resource by resource with their weights; 0 where it does not fit. */
static double fullness(const Program *p, Py_ssize_t row, double ahead)
{
    double total = 0.0;
    int fits = 1;
    for (int64_t i = 0; i < p->plan[PACKED]; i++) {
        double capacity = offer(p, p->pack_offered[i], row), part = 0.0;
        if (capacity != 0.0) {
            double then = amount(p, p->pack_used[i], row, ahead) + p->pack_asks[i];
            fits = fits && then <= capacity;
            part = then * p->pack_weights[i] / capacity;
        }
        total = total + part;
    }
    if (p->numbers[PACK_DIVISOR] > 0.0)
        total = total / p->numbers[PACK_DIVISOR];
    return fits ? total * p->numbers[PACK_FACTOR] : 0.0;
}

static int enough(const Program *p, const int64_t *parts, Py_ssize_t row, double ahead)
{
    for (int64_t i = 0; i < p->plan[NEEDS]; i++)
        if (!(amount(p, parts[i], row, ahead) >= p->needs[i]))
            return 0;
    return 1;
}

static void judge(const Program *p, Py_ssize_t row, double ahead, Verdict *v)
{
    const int64_t *plan = p->plan;
    v->fits_idle = (uint8_t)enough(p, p->need_idle, row, ahead);
    v->fits_future = (uint8_t)enough(p, p->need_future, row, ahead);
    v->open = p->static_ok[row] && (!p->limits || p->limits[row] > ahead)
              && (plan[PODS_LIMIT] < 0
                  || offer(p, plan[PODS_LIMIT], row) > amount(p, plan[PODS], row, ahead));
    v->order = p->static_order[row];
    if (p->numbers[PACK_FACTOR] != 0.0)
        v->order = v->order + fullness(p, row, ahead);
    if (p->places && p->limits[row] > ahead) {
        int64_t at = p->places[row] + (int64_t)ahead;
        v->order = v->order + (at >= 0 && at < p->step_count ? p->steps[at] : 0.0);
    }
    v->batch = plan[SCORES] ? amount_score(p, row, ahead) : 0.0;
    v->total = v->open && v->fits_future && v->fits_idle ? v->order + v->batch : -INFINITY;
}

/* A program with all that it reads and writes, held open: to open an array takes longer than to
 * look at most of what is in it. */
#define OUTPUTS 6
#define CAPSULE "pumice.core.kernel.program"

/* A row, and its total. */
typedef struct {
    Py_ssize_t row;
    double total;
} Best;

typedef struct {
    Program program;
    const int64_t *stamps;
    uint8_t *fits_idle, *fits_future, *open;
    double *order, *batch, *total;
    /* By block of rows: the best row, and whether it has to be found again. */
    Best *best;
    uint8_t *is_stale;
    Py_buffer views[PROGRAM_PARTS + 1 + OUTPUTS];
} Opened;

static Py_ssize_t blocks_of(const Program *p)
{
    return (p->rows + BLOCK - 1) / BLOCK;
}

static void free_opened(Opened *o)
{
    free(o->best);
    free(o->is_stale);
    free(o);
}

static void close_program(PyObject *capsule)
{
    Opened *o = PyCapsule_GetPointer(capsule, CAPSULE);
    if (o) {
        release(o->views, PROGRAM_PARTS + 1 + OUTPUTS);
        free_opened(o);
    }
}

static Opened *opened(PyObject *capsule)
{
    return PyCapsule_GetPointer(capsule, CAPSULE);
}

/* Opens stamps and outputs behind the program's own parts; returns how many buffers are open. */
static int open_outputs(Opened *o, PyObject *stamps, PyObject *outputs)
{
    static const Py_ssize_t sizes[OUTPUTS] = {1, 1, 1, 8, 8, 8};
    Py_ssize_t rows = o->program.rows;
    int count = PROGRAM_PARTS, good;
    if (get(stamps, &o->views[count], 8, 0) < 0)
        return count;
    count++;
    good = o->views[PROGRAM_PARTS].len / 8 == rows;
    for (int i = 0; good && i < OUTPUTS; i++) {
        if (get(PyTuple_GetItem(outputs, i), &o->views[count], sizes[i], 1) < 0)
            return count;
        good = o->views[count++].len / sizes[i] == rows;
    }
    if (!good)
        PyErr_SetString(PyExc_ValueError, "stamps, rows and arrays do not belong together");
    return count;
}

/* program(parts, stamps, (fits_idle, fits_future, open, order, batch, total)) -> program */
static PyObject *open_all(PyObject *self, PyObject *args)
{
    PyObject *parts, *stamps, *outputs, *capsule = NULL;
    Py_buffer *out;
    Opened *o;
    int count;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOO!", &parts, &stamps, &PyTuple_Type, &outputs))
        return NULL;
    if (PyTuple_Size(outputs) != OUTPUTS) {
        PyErr_SetString(PyExc_TypeError, "six arrays are written to");
        return NULL;
    }
    o = calloc(1, sizeof *o);
    if (!o)
        return PyErr_NoMemory();
    if (open_program(parts, &o->program, o->views) < 0) {
        free(o);
        return NULL;
    }
    count = open_outputs(o, stamps, outputs);
    /* One more than needed: of nothing, an allocation may be NULL. */
    o->best = calloc((size_t)blocks_of(&o->program) + 1, sizeof(Best));
    o->is_stale = calloc((size_t)blocks_of(&o->program) + 1, 1);
    if (!PyErr_Occurred() && !(o->best && o->is_stale))
        PyErr_NoMemory();
    if (!PyErr_Occurred())
        capsule = PyCapsule_New(o, CAPSULE, close_program);
    if (!capsule) {
        release(o->views, count);
        free_opened(o);
        return NULL;
    }
    memset(o->is_stale, 1, (size_t)blocks_of(&o->program));
    out = o->views + PROGRAM_PARTS;
    o->stamps = out[0].buf;
    o->fits_idle = out[1].buf;
    o->fits_future = out[2].buf;
    o->open = out[3].buf;
    o->order = out[4].buf;
    o->batch = out[5].buf;
    o->total = out[6].buf;
    return capsule;
}

static void put(const Opened *o, Py_ssize_t row)
{
    Verdict v;
    judge(&o->program, row, 0.0, &v);
    o->fits_idle[row] = v.fits_idle;
    o->fits_future[row] = v.fits_future;
    o->open[row] = v.open;
    o->order[row] = v.order;
    o->batch[row] = v.batch;
    o->total[row] = v.total;
    o->is_stale[row / BLOCK] = 1;
}

/* Several neighbouring rows at once: the same operations as in judge, lane by lane and without
 * branches, so that compilers make vectors of them. */
/* Fewer rows than this are judged one by one. */
#define FEW_LANES 4

/* What is true is 1, and what is not is 0: floats of one width make the best vectors. */
typedef struct {
    double fits_idle[LANES], fits_future[LANES], open[LANES], order[LANES], batch[LANES];
    double total[LANES];
} Lanes;

/* The floor of what is not negative and below 2^51; what is not finite stays so. */
static inline double whole_lane(double value)
{
    double nearest = (value + 4503599627370496.0) - 4503599627370496.0;
    return nearest - (nearest > value ? 1.0 : 0.0);
}

static inline const double *amount_lanes(const Program *p, int64_t part, Py_ssize_t row)
{
    return p->amounts + part * p->rows + row;
}

static inline const double *offer_lanes(const Program *p, int64_t part, Py_ssize_t row)
{
    return p->offered + part * p->rows + row;
}

/* Whether lanes compute the same as single rows: amounts are not negative, and capacities exact. */
static int suits_lanes(const double *amounts, const double *capacities)
{
    int64_t bad = 0;
    for (int i = 0; i < LANES; i++)
        bad |= !(amounts[i] >= 0.0) | !(capacities[i] < EXACT_BELOW);
    return !bad;
}

static inline double percentage_lane(double amount, double capacity)
{
    double part = whole_lane(amount * 100.0 / capacity);
    return capacity > 0.0 ? part : 0.0;
}

static inline double mean_lane(double cpu, double cpu_capacity, double memory,
                               double memory_capacity)
{
    double sum = percentage_lane(cpu, cpu_capacity) + percentage_lane(memory, memory_capacity);
    double half = whole_lane(sum * 0.5);
    return (cpu_capacity > 0.0) & (memory_capacity > 0.0) ? half : sum;
}

static inline double fraction_lane(double used, double capacity)
{
    double part = used / capacity;
    part = part < 1.0 ? part : 1.0;
    return capacity > 0.0 ? part : 0.0;
}

static inline double evenness_lane(double one, double other)
{
    return whole_lane((1.0 - fabs(one - other) * 0.5) * 100.0);
}

static inline double balance_lane(double then, double now)
{
    double change = (50.0 + then - now) / 2.0, size = whole_lane(fabs(change));
    return 50.0 + (change < 0.0 ? -size : size);
}

static void least_lanes(const Program *p, Py_ssize_t row, const double *cpu, const double *memory,
                        double *restrict total)
{
    const double *n = p->numbers;
    const double *used_cpu = amount_lanes(p, p->plan[NON_ZERO_CPU], row);
    const double *used_memory = amount_lanes(p, p->plan[NON_ZERO_MEMORY], row);
    double free_cpu[LANES], free_memory[LANES];
    for (int i = 0; i < LANES; i++) {
        free_cpu[i] = cpu[i] - used_cpu[i] - n[ASKS_NON_ZERO_CPU];
        free_memory[i] = memory[i] - used_memory[i] - n[ASKS_NON_ZERO_MEMORY];
    }
    if (n[LEAST] != 0.0)
        for (int i = 0; i < LANES; i++)
            total[i] += n[LEAST] * mean_lane(free_cpu[i] > 0.0 ? free_cpu[i] : 0.0, cpu[i],
                                             free_memory[i] > 0.0 ? free_memory[i] : 0.0,
                                             memory[i]);
    if (n[MOST] != 0.0)
        for (int i = 0; i < LANES; i++) {
            double then_cpu = cpu[i] - free_cpu[i], then_memory = memory[i] - free_memory[i];
            total[i] += n[MOST] * mean_lane(then_cpu < cpu[i] ? then_cpu : cpu[i], cpu[i],
                                            then_memory < memory[i] ? then_memory : memory[i],
                                            memory[i]);
        }
}

/* Balance of cpu and memory. */
static void balance_lanes(const Program *p, Py_ssize_t row, const double *cpu,
                          const double *memory, double *restrict total)
{
    const double *n = p->numbers;
    const double *used_cpu = amount_lanes(p, p->plan[USED_CPU], row);
    const double *used_memory = amount_lanes(p, p->plan[USED_MEMORY], row);
    for (int i = 0; i < LANES; i++) {
        double now = evenness_lane(fraction_lane(used_cpu[i], cpu[i]),
                                   fraction_lane(used_memory[i], memory[i]));
        double then = evenness_lane(fraction_lane(used_cpu[i] + n[ASKS_CPU], cpu[i]),
                                    fraction_lane(used_memory[i] + n[ASKS_MEMORY], memory[i]));
        double change = n[BALANCED] * balance_lane(then, now);
        total[i] += (cpu[i] > 0.0) & (memory[i] > 0.0) ? change : n[BALANCED] * 75.0;
    }
}

/* How evenly three fractions are used, of which some are known. */
static inline double evenness_of_three_lane(double a, double b, double c, double has_a,
                                            double has_b, double has_c)
{
    double total = a + b + c, average = total / 3.0, squares = 0.0, all, pair;
    double known = has_a + has_b + has_c;
    squares = squares + (a - average) * (a - average);
    squares = squares + (b - average) * (b - average);
    squares = squares + (c - average) * (c - average);
    all = whole_lane((1.0 - sqrt(squares / 3.0)) * 100.0);
    /* Of two that are known, the third is 0. */
    pair = evenness_lane(has_a > 0.0 ? a : b, has_c > 0.0 ? c : b);
    all = known > 2.0 ? all : pair;
    return known > 1.0 ? all : 100.0;
}

/* Balance of cpu, memory and cards. */
static void balance_of_three_lanes(const Program *p, Py_ssize_t row, const double *cpu,
                                   const double *memory, double *restrict total)
{
    const double *n = p->numbers;
    const double *cards = offer_lanes(p, p->plan[CAP_CARDS], row);
    const double *used_cpu = amount_lanes(p, p->plan[USED_CPU], row);
    const double *used_memory = amount_lanes(p, p->plan[USED_MEMORY], row);
    const double *used_cards = amount_lanes(p, p->plan[USED_CARDS], row);
    for (int i = 0; i < LANES; i++) {
        double has_cpu = cpu[i] > 0.0 ? 1.0 : 0.0, has_memory = memory[i] > 0.0 ? 1.0 : 0.0;
        double has_cards = cards[i] > 0.0 ? 1.0 : 0.0;
        double now = evenness_of_three_lane(
            fraction_lane(used_cpu[i], cpu[i]), fraction_lane(used_memory[i], memory[i]),
            fraction_lane(used_cards[i], cards[i]), has_cpu, has_memory, has_cards);
        double then = evenness_of_three_lane(
            fraction_lane(used_cpu[i] + n[ASKS_CPU], cpu[i]),
            fraction_lane(used_memory[i] + n[ASKS_MEMORY], memory[i]),
            fraction_lane(used_cards[i] + n[ASKS_CARDS], cards[i]), has_cpu, has_memory,
            has_cards);
        total[i] += n[BALANCED] * balance_lane(then, now);
    }
}

/* As amount_score; false where single rows have to be judged. */
static int score_lanes(const Program *p, Py_ssize_t row, double *restrict total)
{
    const int64_t *plan = p->plan;
    const double *n = p->numbers;
    const double *cpu = offer_lanes(p, plan[CAP_CPU], row);
    const double *memory = offer_lanes(p, plan[CAP_MEMORY], row);
    if (!suits_lanes(amount_lanes(p, plan[NON_ZERO_CPU], row), cpu)
        || !suits_lanes(amount_lanes(p, plan[NON_ZERO_MEMORY], row), memory)
        || !suits_lanes(amount_lanes(p, plan[USED_CPU], row), cpu)
        || !suits_lanes(amount_lanes(p, plan[USED_MEMORY], row), memory))
        return 0;
    if (n[LEAST] != 0.0 || n[MOST] != 0.0)
        least_lanes(p, row, cpu, memory, total);
    if (n[BALANCED] == 0.0)
        return 1;
    if (plan[CAP_CARDS] < 0) {
        balance_lanes(p, row, cpu, memory, total);
        return 1;
    }
    if (!suits_lanes(amount_lanes(p, plan[USED_CARDS], row), offer_lanes(p, plan[CAP_CARDS], row)))
        return 0;
    balance_of_three_lanes(p, row, cpu, memory, total);
    return 1;
}

static void fullness_lanes(const Program *p, Py_ssize_t row, double *restrict order)
{
    double total[LANES] = {0.0};
    double fits[LANES];
    for (int i = 0; i < LANES; i++)
        fits[i] = 1.0;
    for (int64_t j = 0; j < p->plan[PACKED]; j++) {
        const double *capacity = offer_lanes(p, p->pack_offered[j], row);
        const double *used = amount_lanes(p, p->pack_used[j], row);
        double asks = p->pack_asks[j], weight = p->pack_weights[j];
        for (int i = 0; i < LANES; i++) {
            double then = used[i] + asks, part = then * weight / capacity[i];
            double room = then <= capacity[i] ? fits[i] : 0.0;
            fits[i] = capacity[i] != 0.0 ? room : fits[i];
            total[i] = total[i] + (capacity[i] != 0.0 ? part : 0.0);
        }
    }
    if (p->numbers[PACK_DIVISOR] > 0.0)
        for (int i = 0; i < LANES; i++)
            total[i] = total[i] / p->numbers[PACK_DIVISOR];
    for (int i = 0; i < LANES; i++)
        order[i] = order[i] + (fits[i] > 0.0 ? total[i] * p->numbers[PACK_FACTOR] : 0.0);
}

static void enough_lanes(const Program *p, const int64_t *parts, Py_ssize_t row,
                         double *restrict fits)
{
    for (int i = 0; i < LANES; i++)
        fits[i] = 1.0;
    for (int64_t j = 0; j < p->plan[NEEDS]; j++) {
        const double *is = amount_lanes(p, parts[j], row);
        double need = p->needs[j];
        for (int i = 0; i < LANES; i++)
            fits[i] = is[i] >= need ? fits[i] : 0.0;
    }
}

/* Where the compiler can, it makes two versions of a function, and the processor decides which one
 * runs; neither contracts products and sums. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_WIDE_VECTORS __attribute__((target_clones("avx2", "default"), flatten))
#else
#define FOR_WIDE_VECTORS
#endif

/* As judge for a row and those behind it; false where single rows have to be judged. */
FOR_WIDE_VECTORS static int judge_lanes(const Program *p, Py_ssize_t row, Lanes *v)
{
    const int64_t *plan = p->plan;
    enough_lanes(p, p->need_idle, row, v->fits_idle);
    enough_lanes(p, p->need_future, row, v->fits_future);
    for (int i = 0; i < LANES; i++) {
        v->open[i] = p->static_ok[row + i] ? 1.0 : 0.0;
        v->order[i] = p->static_order[row + i];
        v->batch[i] = 0.0;
    }
    if (plan[PODS_LIMIT] >= 0) {
        const double *limit = offer_lanes(p, plan[PODS_LIMIT], row);
        const double *pods = amount_lanes(p, plan[PODS], row);
        for (int i = 0; i < LANES; i++)
            v->open[i] = limit[i] > pods[i] ? v->open[i] : 0.0;
    }
    if (p->numbers[PACK_FACTOR] != 0.0)
        fullness_lanes(p, row, v->order);
    for (int i = 0; p->limits && i < LANES; i++) {
        if (!(p->limits[row + i] > 0.0)) {
            v->open[i] = 0.0;
        } else if (p->places) {
            int64_t at = p->places[row + i];
            v->order[i] = v->order[i] + (at >= 0 && at < p->step_count ? p->steps[at] : 0.0);
        }
    }
    if (plan[SCORES] && !score_lanes(p, row, v->batch))
        return 0;
    for (int i = 0; i < LANES; i++) {
        double takes = v->open[i] * v->fits_future[i] * v->fits_idle[i];
        v->total[i] = takes > 0.0 ? v->order[i] + v->batch[i] : -INFINITY;
    }
    return 1;
}

/* Fills in those of a row and the ones behind it that were stamped after a number of changes. */
static void put_lanes(const Opened *o, Py_ssize_t row, int64_t since)
{
    Lanes v;
    int good = judge_lanes(&o->program, row, &v);
    /* All lanes are in one block. */
    o->is_stale[row / BLOCK] = 1;
    for (int i = 0; i < LANES; i++, row++) {
        if (o->stamps[row] <= since)
            continue;
        if (!good) {
            put(o, row);
            continue;
        }
        o->fits_idle[row] = v.fits_idle[i] > 0.0;
        o->fits_future[row] = v.fits_future[i] > 0.0;
        o->open[row] = v.open[i] > 0.0;
        o->order[row] = v.order[i];
        o->batch[row] = v.batch[i];
        o->total[row] = v.total[i];
    }
}

/* Whether rows of a block were stamped after a number of changes. */
FOR_WIDE_VECTORS static int any_after(const int64_t *stamps, int64_t since)
{
    int64_t found = 0;
    for (int i = 0; i < BLOCK; i++)
        found |= stamps[i] > since;
    return found != 0;
}

/* How many of the next rows were stamped after that number of changes. */
static inline int count_after(const int64_t *stamps, int64_t since)
{
    int64_t found = 0;
    for (int i = 0; i < LANES; i++)
        found += stamps[i] > since;
    return (int)found;
}

/* evaluate(program, since): for the rows that were stamped after a number of changes; returns how
 * many these are. */
static PyObject *evaluate(PyObject *self, PyObject *args)
{
    PyObject *capsule;
    const Opened *o;
    long long since;
    Py_ssize_t count = 0, row = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "OL", &capsule, &since))
        return NULL;
    o = opened(capsule);
    if (!o)
        return NULL;
    while (row < o->program.rows) {
        Py_ssize_t end = row + LANES < o->program.rows ? row + LANES : o->program.rows;
        int stamped;
        if (row % BLOCK == 0 && row + BLOCK <= o->program.rows
            && !any_after(o->stamps + row, since)) {
            row += BLOCK;
            continue;
        }
        stamped = end - row == LANES ? count_after(o->stamps + row, since) : 1;
        if (stamped >= FEW_LANES) {
            put_lanes(o, row, since);
            count += stamped;
            row = end;
        } else if (!stamped)
            row = end;
        for (; row < end; row++)
            if (o->stamps[row] > since) {
                put(o, row);
                count++;
            }
    }
    return PyLong_FromSsize_t(count);
}

/* forget(program): what was found among the totals does not hold: others have written them. */
static PyObject *forget(PyObject *self, PyObject *capsule)
{
    const Opened *o = opened(capsule);
    (void)self;
    if (!o)
        return NULL;
    memset(o->is_stale, 1, (size_t)blocks_of(&o->program));
    Py_INCREF(Py_None);
    return Py_None;
}

/* The first of the largest values of a block. */
static Best best_of(const double *totals, Py_ssize_t from, Py_ssize_t to)
{
    double parts[4] = {totals[from], totals[from], totals[from], totals[from]}, most;
    Py_ssize_t i = from;
    for (; i + 4 <= to; i += 4)
        for (int j = 0; j < 4; j++)
            parts[j] = totals[i + j] > parts[j] ? totals[i + j] : parts[j];
    for (; i < to; i++)
        parts[0] = totals[i] > parts[0] ? totals[i] : parts[0];
    most = parts[0];
    for (int j = 1; j < 4; j++)
        most = parts[j] > most ? parts[j] : most;
    /* What is no number is never the largest, and never equal. */
    for (i = from; i < to; i++)
        if (totals[i] == most)
            return (Best){i, most};
    return (Best){from, totals[from]};
}

static Py_ssize_t end_of(Py_ssize_t block, Py_ssize_t rows)
{
    return (block + 1) * BLOCK < rows ? (block + 1) * BLOCK : rows;
}

/* Finds the best rows of blocks that have changed. */
static void find_best(const Opened *o)
{
    for (Py_ssize_t b = 0; b < blocks_of(&o->program); b++)
        if (o->is_stale[b]) {
            o->best[b] = best_of(o->total, b * BLOCK, end_of(b, o->program.rows));
            o->is_stale[b] = 0;
        }
}

/* Takes the best row, counts a task on it, and so on; returns how many were taken. */
static Py_ssize_t take(const Program *p, double *totals, double *placed, Best *best,
                       Py_ssize_t count, int64_t *chosen, Py_ssize_t *judged)
{
    Py_ssize_t blocks = blocks_of(p), taken = 0;
    while (taken < count) {
        Verdict v;
        Best most = best[0];
        Py_ssize_t row, block;
        for (Py_ssize_t b = 1; b < blocks; b++)
            if (best[b].total > most.total)
                most = best[b];
        if (most.total == -INFINITY)
            break;
        row = most.row;
        chosen[taken++] = row;
        if (taken == count)
            break;
        placed[row] += 1.0;
        judge(p, row, placed[row], &v);
        ++*judged;
        totals[row] = v.total;
        block = row / BLOCK;
        best[block] = best_of(totals, block * BLOCK, end_of(block, p->rows));
    }
    return taken;
}

/* As take for the rows of a mask, or for all of them. */
static Py_ssize_t take_within(const Opened *o, const uint8_t *mask, double *totals, double *placed,
                              Py_ssize_t count, int64_t *chosen, Py_ssize_t *judged)
{
    Py_ssize_t blocks = blocks_of(&o->program), taken;
    Best *best = o->best;
    find_best(o);
    if (count > 1 || mask) {
        best = malloc(sizeof(Best) * (size_t)blocks);
        if (!best)
            return -1;
        memcpy(best, o->best, sizeof(Best) * (size_t)blocks);
    }
    for (Py_ssize_t b = 0; mask && b < blocks; b++)
        best[b] = best_of(totals, b * BLOCK, end_of(b, o->program.rows));
    taken = take(&o->program, totals, placed, best, count, chosen, judged);
    if (best != o->best)
        free(best);
    return taken;
}

static PyObject *as_list(const int64_t *values, Py_ssize_t count)
{
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list && i < count; i++) {
        PyObject *number = PyLong_FromLongLong(values[i]);
        if (!number) {
            Py_CLEAR(list);
            break;
        }
        PyList_SetItem(list, i, number);
    }
    return list;
}

/* Scores of candidates that depend on who else is a candidate, and on placements elsewhere. */
enum { SCALED_UP, SCALED_DOWN, SPREAD, TERM_KINDS };
#define MOST_TERMS 4
#define MOST_CONSTRAINTS 8
#define VIEWS_PER_CONSTRAINT 4
#define MOST_VIEWS (MOST_TERMS * (2 + MOST_CONSTRAINTS * VIEWS_PER_CONSTRAINT))

typedef struct {
    int by_row, counts_itself;
    double more;
    Py_ssize_t size, domains;
    const int32_t *codes, *places;
    const uint8_t *counting;
    /* Own copies, which placements change: matching pods by row, or else by place. */
    int32_t *pods;
    int64_t *sums;
    /* By place: what its pods add to the crowding. */
    double *shares;
} Constraint;

typedef struct {
    int kind, constraint_count;
    double weight;
    const int64_t *raw;
    int64_t highest;
    const uint8_t *keyed;
    const double *logarithms;
    Py_ssize_t logarithm_count;
    /* By row: how crowded its places are, and whether it is a candidate that is scored; with room
     * for a few more. */
    double *crowding, *scored;
    Constraint constraints[MOST_CONSTRAINTS];
} Term;

typedef struct {
    Py_ssize_t rows;
    int count, view_count, has_spread, is_outdated;
    Term terms[MOST_TERMS];
    Py_buffer views[MOST_VIEWS];
    /* By row: what the terms add, and the scores with it. */
    double *extra, *values;
} Terms;

static void close_terms(Terms *t)
{
    release(t->views, t->view_count);
    for (int i = 0; i < t->count; i++) {
        for (int j = 0; j < t->terms[i].constraint_count; j++) {
            free(t->terms[i].constraints[j].pods);
            free(t->terms[i].constraints[j].sums);
            free(t->terms[i].constraints[j].shares);
        }
        free(t->terms[i].crowding);
        free(t->terms[i].scored);
    }
    free(t->extra);
    free(t->values);
    free(t);
}

/* Opens an array with an element for each row, or with at least so many elements. */
static const void *array_of(Terms *t, PyObject *object, Py_ssize_t itemsize, Py_ssize_t least)
{
    Py_buffer *view = &t->views[t->view_count];
    if (get(object, view, itemsize, 0) < 0)
        return NULL;
    t->view_count++;
    if (least < 0 ? view->len / itemsize != t->rows : view->len / itemsize < least) {
        PyErr_SetString(PyExc_ValueError, "the arrays of a term do not belong to the rows");
        return NULL;
    }
    return view->buf;
}

FOR_WIDE_VECTORS static int places_in_range(const Constraint *c, Py_ssize_t rows)
{
    const int32_t *codes = c->codes, *places = c->places;
    int32_t size = (int32_t)c->size, bad = 0;
    for (Py_ssize_t i = 0; i < rows; i++)
        bad |= (places[i] < 0) | (places[i] > size) | (codes[i] >= size);
    return !bad;
}

/* Counts the pods of each place; most rows have none. */
static void add_up(const Constraint *c, const int32_t *counts, Py_ssize_t rows)
{
    for (Py_ssize_t first = 0; first < rows; first += BLOCK) {
        Py_ssize_t end = first + BLOCK < rows ? first + BLOCK : rows;
        int32_t any = 0;
        for (Py_ssize_t i = first; i < end; i++)
            any |= counts[i];
        for (Py_ssize_t i = first; any && i < end; i++)
            if (counts[i] && c->counting[i])
                c->sums[c->places[i]] += counts[i];
    }
}

static int open_constraint(Terms *t, PyObject *parts, Constraint *c)
{
    PyObject *codes, *places, *counting, *pods;
    const int32_t *counts;
    memset(c, 0, sizeof *c);
    if (!PyTuple_Check(parts)
        || !PyArg_ParseTuple(parts, "ppdnOOOO", &c->by_row, &c->counts_itself, &c->more, &c->size,
                             &codes, &places, &counting, &pods))
        return -1;
    if (!(c->codes = array_of(t, codes, 4, -1)) || !(c->places = array_of(t, places, 4, -1))
        || !(c->counting = array_of(t, counting, 1, -1)) || !(counts = array_of(t, pods, 4, -1)))
        return -1;
    /* Where every row is a place of its own, none is looked up. */
    if (c->size < 0 || c->size > t->rows || (!c->by_row && !places_in_range(c, t->rows))) {
        PyErr_SetString(PyExc_ValueError, "a place of a term is out of range");
        return -1;
    }
    if (c->by_row)
        c->pods = malloc(sizeof(int32_t) * (size_t)t->rows);
    else {
        c->sums = calloc((size_t)c->size + 1, sizeof(int64_t));
        c->shares = calloc((size_t)c->size + 1, sizeof(double));
    }
    if (!c->pods && !(c->sums && c->shares)) {
        PyErr_NoMemory();
        return -1;
    }
    if (c->by_row)
        memcpy(c->pods, counts, sizeof(int32_t) * (size_t)t->rows);
    else
        add_up(c, counts, t->rows);
    return 0;
}

static int open_spread(Terms *t, PyObject *parts, Term *term)
{
    PyObject *keyed, *logarithms, *constraints;
    int kind;
    if (!PyArg_ParseTuple(parts, "idOOO!", &kind, &term->weight, &keyed, &logarithms,
                          &PyTuple_Type, &constraints))
        return -1;
    if (PyTuple_Size(constraints) > MOST_CONSTRAINTS) {
        PyErr_SetString(PyExc_ValueError, "a term has too many constraints");
        return -1;
    }
    if (!(term->keyed = array_of(t, keyed, 1, -1))
        || !(term->logarithms = array_of(t, logarithms, 8, t->rows + 2)))
        return -1;
    t->has_spread = 1;
    term->crowding = malloc(sizeof(double) * ((size_t)t->rows + LANES));
    term->scored = malloc(sizeof(double) * ((size_t)t->rows + LANES));
    if (!term->crowding || !term->scored) {
        PyErr_NoMemory();
        return -1;
    }
    memset(term->crowding + t->rows, 0, sizeof(double) * LANES);
    memset(term->scored + t->rows, 0, sizeof(double) * LANES);
    for (Py_ssize_t i = 0; i < PyTuple_Size(constraints); i++) {
        term->constraint_count++;
        if (open_constraint(t, PyTuple_GetItem(constraints, i), &term->constraints[i]) < 0)
            return -1;
    }
    return 0;
}

static int open_term(Terms *t, PyObject *parts, Term *term)
{
    long kind = -1;
    if (PyTuple_Check(parts) && PyTuple_Size(parts) > 0)
        kind = PyLong_AsLong(PyTuple_GetItem(parts, 0));
    if (kind < 0 || kind >= TERM_KINDS) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "no such kind of term");
        return -1;
    }
    term->kind = (int)kind;
    if (kind == SPREAD)
        return open_spread(t, parts, term);
    {
        PyObject *raw;
        int ignored;
        if (!PyArg_ParseTuple(parts, "idO", &ignored, &term->weight, &raw))
            return -1;
        return (term->raw = array_of(t, raw, 8, -1)) ? 0 : -1;
    }
}

static Terms *open_terms(PyObject *given, Py_ssize_t rows)
{
    Terms *t;
    if (!PyTuple_Check(given) || PyTuple_Size(given) > MOST_TERMS) {
        PyErr_SetString(PyExc_TypeError, "terms are a short tuple");
        return NULL;
    }
    t = calloc(1, sizeof *t);
    if (!t) {
        PyErr_NoMemory();
        return NULL;
    }
    t->rows = rows;
    t->is_outdated = 1;
    t->extra = malloc(sizeof(double) * (size_t)rows);
    t->values = malloc(sizeof(double) * (size_t)rows);
    if (!t->extra || !t->values)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; !PyErr_Occurred() && i < PyTuple_Size(given); i++) {
        t->count++;
        open_term(t, PyTuple_GetItem(given, i), &t->terms[i]);
    }
    if (PyErr_Occurred()) {
        close_terms(t);
        return NULL;
    }
    return t;
}

/* The floor of a quotient of whole numbers that are not negative: floats are faster to divide, and
 * exact below 2^53. */
static inline double quotient(int64_t number, int64_t by)
{
    if (number < ((int64_t)1 << 53))
        return whole((double)number / (double)by);
    return (double)(number / by);
}

/* Adds a raw number on the scale that the highest one among the candidates makes. */
static void add_scaled(Terms *t, Term *term, const double *totals)
{
    int64_t highest = 0;
    for (Py_ssize_t i = 0; i < t->rows; i++)
        if (totals[i] != -INFINITY && term->raw[i] > highest)
            highest = term->raw[i];
    term->highest = highest;
    if (!highest)
        return;
    for (Py_ssize_t i = 0; i < t->rows; i++) {
        double part = quotient(term->raw[i] * 100, highest);
        t->extra[i] += term->weight * (term->kind == SCALED_UP ? part : 100.0 - part);
    }
}

/* How many places of a constraint have candidates that are scored; below zero: no memory. */
FOR_WIDE_VECTORS static Py_ssize_t count_places(const Terms *t, const Term *term,
                                                const Constraint *c)
{
    const int32_t *restrict places = c->places;
    const double *restrict scored = term->scored;
    Py_ssize_t count = 0;
    if (c->size < 64) {
        uint64_t seen = 0;
        for (Py_ssize_t i = 0; i < t->rows; i++)
            seen |= (uint64_t)(scored[i] > 0.0) << places[i];
        for (; seen; seen &= seen - 1)
            count++;
    } else {
        uint8_t *seen = calloc((size_t)c->size + 1, 1);
        if (!seen)
            return -1;
        for (Py_ssize_t i = 0; i < t->rows; i++)
            seen[places[i]] |= scored[i] > 0.0;
        for (Py_ssize_t i = 0; i <= c->size; i++)
            count += seen[i];
        free(seen);
    }
    return count;
}

/* Notes which candidates are scored, and counts the places among them. */
FOR_WIDE_VECTORS static int count_domains(const Terms *t, Term *term, const double *totals)
{
    int64_t count = 0;
    for (Py_ssize_t i = 0; i < t->rows; i++) {
        int is_scored = (totals[i] != -INFINITY) & (term->keyed[i] != 0);
        term->scored[i] = is_scored ? 1.0 : 0.0;
        count += is_scored;
    }
    for (int j = 0; j < term->constraint_count; j++) {
        Constraint *c = &term->constraints[j];
        c->domains = c->by_row ? count : count_places(t, term, c);
        if (c->domains < 0)
            return -1;
    }
    return 0;
}

/* What so many pods add to the crowding of a row. */
static inline double share_of(const Term *term, const Constraint *c, int64_t pods)
{
    return (double)pods * term->logarithms[c->domains] + c->more;
}

/* To the nearest whole number. */
static inline double rounded(double raw)
{
    double cut = whole_lane(raw);
    return cut + (raw - cut >= 0.5 ? 1.0 : 0.0);
}

static double crowding_of(const Term *term, Py_ssize_t row)
{
    double raw = 0.0;
    for (int j = 0; j < term->constraint_count; j++) {
        const Constraint *c = &term->constraints[j];
        double part = 0.0;
        if (c->codes[row] >= 0)
            part = share_of(term, c, c->by_row ? c->pods[row] : c->sums[c->codes[row]]);
        raw = raw + part;
    }
    return rounded(raw);
}

/* As crowding_of, for all rows, block by block. */
FOR_WIDE_VECTORS static void crowd(const Terms *t, const Term *term)
{
    for (int j = 0; j < term->constraint_count; j++) {
        const Constraint *c = &term->constraints[j];
        /* The last one is 0, for rows without the label. */
        for (Py_ssize_t k = 0; !c->by_row && k < c->size; k++)
            c->shares[k] = share_of(term, c, c->sums[k]);
    }
    for (Py_ssize_t first = 0; first < t->rows; first += BLOCK) {
        Py_ssize_t count = end_of(first / BLOCK, t->rows) - first;
        double raw[BLOCK] = {0.0};
        for (int j = 0; j < term->constraint_count; j++) {
            const Constraint *c = &term->constraints[j];
            const int32_t *restrict codes = c->codes + first;
            for (Py_ssize_t i = 0; c->by_row && i < count; i++) {
                double part = share_of(term, c, c->pods[first + i]);
                raw[i] = raw[i] + (codes[i] >= 0 ? part : 0.0);
            }
            for (Py_ssize_t i = 0; !c->by_row && i < count; i++)
                raw[i] = raw[i] + c->shares[codes[i] >= 0 ? codes[i] : c->size];
        }
        for (Py_ssize_t i = 0; i < count; i++)
            term->crowding[first + i] = rounded(raw[i]);
    }
}

/* So many points by the difference to the lowest crowding are computed once for all rows. */
#define MOST_POINTS 256

static inline double spread_points(double crowding, double lowest, double highest)
{
    int64_t most = (int64_t)highest;
    return most <= 0 ? 100.0 : quotient(100 * (most + (int64_t)lowest - (int64_t)crowding), most);
}

/* The lowest and the highest crowding of candidates that are scored. */
FOR_WIDE_VECTORS static void find_range(const Terms *t, const Term *term, double *lowest,
                                        double *highest)
{
    double low[LANES], high[LANES];
    for (int j = 0; j < LANES; j++) {
        low[j] = INFINITY;
        high[j] = -INFINITY;
    }
    for (Py_ssize_t i = 0; i < t->rows; i += LANES)
        for (int j = 0; j < LANES; j++) {
            /* Behind the last row nothing is scored. */
            double is = term->crowding[i + j], scored = term->scored[i + j];
            double least = scored > 0.0 ? is : INFINITY, most = scored > 0.0 ? is : -INFINITY;
            low[j] = least < low[j] ? least : low[j];
            high[j] = most > high[j] ? most : high[j];
        }
    *lowest = low[0];
    *highest = high[0];
    for (int j = 1; j < LANES; j++) {
        *lowest = low[j] < *lowest ? low[j] : *lowest;
        *highest = high[j] > *highest ? high[j] : *highest;
    }
}

FOR_WIDE_VECTORS static int add_spread(Terms *t, Term *term, const double *totals)
{
    const double *restrict scored = term->scored, *restrict crowding = term->crowding;
    double *restrict extra = t->extra;
    double points[MOST_POINTS], lowest, highest;
    if (t->is_outdated) {
        if (count_domains(t, term, totals) < 0)
            return -1;
        crowd(t, term);
    }
    find_range(t, term, &lowest, &highest);
    if (!(lowest <= highest))
        return 0;
    if (highest - lowest >= MOST_POINTS) {
        for (Py_ssize_t i = 0; i < t->rows; i++)
            if (scored[i] > 0.0)
                extra[i] += term->weight * spread_points(crowding[i], lowest, highest);
        return 0;
    }
    for (int k = 0; k <= (int)(highest - lowest); k++)
        points[k] = term->weight * spread_points(lowest + k, lowest, highest);
    for (Py_ssize_t i = 0; i < t->rows; i++) {
        int above = (int)(scored[i] > 0.0 ? crowding[i] - lowest : 0.0);
        double more = points[above];
        extra[i] += scored[i] > 0.0 ? more : 0.0;
    }
    return 0;
}

/* Computes what the terms add; anew only where the candidates or the counts have changed. */
static int add_terms(Terms *t, const double *totals)
{
    if (!t->is_outdated && !t->has_spread)
        return 0;
    memset(t->extra, 0, sizeof(double) * (size_t)t->rows);
    for (int i = 0; i < t->count; i++) {
        if (t->terms[i].kind != SPREAD)
            add_scaled(t, &t->terms[i], totals);
        else if (add_spread(t, &t->terms[i], totals) < 0)
            return -1;
    }
    t->is_outdated = 0;
    return 0;
}

/* A task was placed on a row: its places are more crowded. */
static void count_placed(Terms *t, Py_ssize_t row)
{
    for (int i = 0; i < t->count; i++) {
        Term *term = &t->terms[i];
        for (int j = 0; j < term->constraint_count; j++) {
            Constraint *c = &term->constraints[j];
            if (!c->counts_itself)
                continue;
            if (c->by_row)
                c->pods[row]++;
            else if (c->counting[row])
                c->sums[c->places[row]]++;
        }
        for (int j = 0; j < term->constraint_count; j++) {
            const Constraint *c = &term->constraints[j];
            if (!c->counts_itself || c->by_row || !c->counting[row])
                continue;
            for (Py_ssize_t k = 0; k < t->rows; k++)
                if (c->codes[k] == c->places[row])
                    term->crowding[k] = crowding_of(term, k);
        }
        if (term->constraint_count)
            term->crowding[row] = crowding_of(term, row);
    }
}

typedef struct {
    /* Copies, where they change. */
    double *totals, *placed, *order, *batch;
    int64_t *chosen;
} Choice;

/* The first of the candidates with the highest score, terms included; below zero: there is none. */
FOR_WIDE_VECTORS static Py_ssize_t best_with_terms(const Choice *c, const Terms *t, double *values)
{
    const double *restrict totals = c->totals, *restrict order = c->order;
    const double *restrict batch = c->batch, *restrict extra = t->extra;
    double *restrict value = values;
    Best best;
    if (!t->rows)
        return -1;
    for (Py_ssize_t i = 0; i < t->rows; i++) {
        double sum = order[i] + (batch[i] + extra[i]);
        value[i] = totals[i] == -INFINITY ? -INFINITY : sum;
    }
    best = best_of(values, 0, t->rows);
    return best.total == -INFINITY ? -1 : best.row;
}

/* As take, with scores that change on other rows too. */
static Py_ssize_t take_with_terms(const Program *p, Choice *c, Terms *t, Py_ssize_t count,
                                  Py_ssize_t *judged)
{
    Py_ssize_t taken = 0;
    while (taken < count) {
        Verdict v;
        Py_ssize_t row;
        if (add_terms(t, c->totals) < 0)
            return -1;
        row = best_with_terms(c, t, t->values);
        if (row < 0)
            break;
        c->chosen[taken++] = row;
        if (taken == count)
            break;
        c->placed[row] += 1.0;
        judge(p, row, c->placed[row], &v);
        ++*judged;
        c->totals[row] = v.total;
        c->order[row] = v.order;
        c->batch[row] = v.batch;
        t->is_outdated = v.total == -INFINITY;
        count_placed(t, row);
    }
    return taken;
}

/* A copy of values that change; else the values themselves. */
static double *copied(double *values, Py_ssize_t count, int changes)
{
    double *copy = changes ? malloc(sizeof(double) * (size_t)count) : values;
    if (copy && changes)
        memcpy(copy, values, sizeof(double) * (size_t)count);
    return copy;
}

static PyObject *choose_rows(const Opened *o, const uint8_t *mask, Py_ssize_t count, Terms *t)
{
    Py_ssize_t rows = o->program.rows, taken = -1, judged = 0;
    /* A single task changes nothing that is read again. */
    int several = count > 1, is_copied = several || mask;
    PyObject *list = NULL;
    Choice c = {copied(o->total, rows, is_copied), calloc(several ? (size_t)rows : 1, sizeof(double)),
                copied(o->order, rows, several && t), copied(o->batch, rows, several && t),
                malloc(sizeof(int64_t) * (size_t)(count ? count : 1))};
    if (c.totals && c.placed && c.chosen && c.order && c.batch) {
        for (Py_ssize_t i = 0; mask && i < rows; i++)
            if (!mask[i])
                c.totals[i] = -INFINITY;
        taken = t ? take_with_terms(&o->program, &c, t, count, &judged)
                  : take_within(o, mask, c.totals, c.placed, count, c.chosen, &judged);
    }
    if (taken >= 0)
        list = as_list(c.chosen, taken);
    else
        PyErr_NoMemory();
    if (is_copied)
        free(c.totals);
    if (several && t) {
        free(c.order);
        free(c.batch);
    }
    free(c.placed);
    free(c.chosen);
    return list ? Py_BuildValue("(Nn)", list, judged) : NULL;
}

/* choose(program, within or None, count, terms) -> (rows, verdicts made) */
static PyObject *choose(PyObject *self, PyObject *args)
{
    PyObject *capsule, *within, *given, *result = NULL;
    Py_buffer mask;
    Py_ssize_t count;
    const Opened *o;
    Terms *t = NULL;
    int masked = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOnO!", &capsule, &within, &count, &PyTuple_Type, &given))
        return NULL;
    o = opened(capsule);
    if (!o)
        return NULL;
    if (within != Py_None) {
        if (get(within, &mask, 1, 0) < 0)
            return NULL;
        masked = 1;
    }
    if (count < 0 || (masked && mask.len != o->program.rows))
        PyErr_SetString(PyExc_ValueError, "nodes and rows do not belong together");
    else if (!PyTuple_Size(given) || (t = open_terms(given, o->program.rows)))
        result = choose_rows(o, masked ? mask.buf : NULL, count, t);
    if (t)
        close_terms(t);
    if (masked)
        PyBuffer_Release(&mask);
    return result;
}

/* weigh(amounts, stamps, rows, weight, stamp): adds the weight to each row, as often as named. */
static PyObject *weigh(PyObject *self, PyObject *args)
{
    PyObject *amounts, *stamps, *rows, *weight, *result = NULL;
    Py_buffer views[3];
    long long stamp;
    Py_ssize_t count, width, parts;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOO!OL", &amounts, &stamps, &PyList_Type, &rows, &weight, &stamp))
        return NULL;
    if (get(amounts, &views[0], 8, 1) < 0)
        return NULL;
    if (get(stamps, &views[1], 8, 1) < 0) {
        release(views, 1);
        return NULL;
    }
    if (get(weight, &views[2], 8, 0) < 0) {
        release(views, 2);
        return NULL;
    }
    width = views[1].len / 8;
    parts = views[2].len / 8;
    count = PyList_Size(rows);
    if (width * parts != views[0].len / 8) {
        PyErr_SetString(PyExc_ValueError, "amounts, stamps and weight do not belong together");
        goto out;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t row = PyLong_AsSsize_t(PyList_GetItem(rows, i));
        if (row < 0 || row >= width) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_IndexError, "no such row");
            goto out;
        }
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t row = PyLong_AsSsize_t(PyList_GetItem(rows, i));
        for (Py_ssize_t part = 0; part < parts; part++) {
            double more = ((const double *)views[2].buf)[part];
            /* Each part is in another cache line, and most tasks ask for few resources. */
            if (more != 0.0)
                ((double *)views[0].buf)[part * width + row] += more;
        }
        ((int64_t *)views[1].buf)[row] = stamp;
    }
    result = Py_None;
    Py_INCREF(result);
out:
    release(views, 3);
    return result;
}

static PyMethodDef methods[] = {
    {"program", open_all, METH_VARARGS, "A program, with what it reads and writes held open."},
    {"evaluate", evaluate, METH_VARARGS, "Fills in what a class makes of the rows that changed."},
    {"forget", forget, METH_O, "Looks at all totals again, which others have written."},
    {"choose", choose, METH_VARARGS, "The best rows for so many equal tasks, one after the other."},
    {"weigh", weigh, METH_VARARGS, "Adds a weight to rows and stamps them."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_rows", "Arithmetic over rows of the node table.", 0, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__rows(void)
{
    PyObject *made = PyModule_Create(&module);
    if (made && PyModule_AddIntConstant(made, "VERSION", VERSION) < 0)
        Py_CLEAR(made);
    return made;
}
