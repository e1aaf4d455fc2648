// Metal's vectors and matrices: the same sizes, alignments, constructors and componentwise rules.
namespace metal {

template <class T, int N> struct vec;
template <class V> struct component {
  using type = V;
  static constexpr int count = 1;
};
template <class T, int N> struct component<vec<T, N>> {
  using type = T;
  static constexpr int count = N;
};
template <class V> struct component<const V> : component<V> {};
template <class V> using component_t = typename component<V>::type;
template <class V> constexpr int count_v = component<V>::count;

template <class T> KW_FUNC T kw_at(T x, int) { return x; }
template <class T, int N> KW_FUNC T kw_at(const vec<T, N>& x, int i) { return x[i]; }

// Components picked for writing: `v.xz = …` becomes an assignment to this view.
template <class T, int N, int... I> struct swizzle_view {
  vec<T, N>& of;
  KW_FUNC void operator=(const vec<T, int(sizeof...(I))>& v) {
    int k = 0;
    ((of[I] = v[k++]), ...);
  }
  KW_FUNC operator vec<T, int(sizeof...(I))>() const { return vec<T, int(sizeof...(I))>(of[I]...); }
#define KW_VIEW_ASSIGN(op)                                                     \
  template <class U> KW_FUNC void operator op##=(const U& v) {                 \
    int k = 0;                                                                 \
    ((of[I] = T(of[I] op kw_at(v, k++))), ...);                                \
  }
  KW_VIEW_ASSIGN(+)
  KW_VIEW_ASSIGN(-)
  KW_VIEW_ASSIGN(*)
  KW_VIEW_ASSIGN(/)
  KW_FUNC vec<T, int(sizeof...(I))> operator++() { return ((++of[I]), ...), *this; }
  KW_FUNC vec<T, int(sizeof...(I))> operator--() { return ((--of[I]), ...), *this; }
  KW_FUNC vec<T, int(sizeof...(I))> operator++(int) {
    vec<T, int(sizeof...(I))> before = *this;
    return ((++of[I]), ...), before;
  }
  KW_FUNC vec<T, int(sizeof...(I))> operator--(int) {
    vec<T, int(sizeof...(I))> before = *this;
    return ((--of[I]), ...), before;
  }
};

// A name that a struct of the text has as a member: what the object is decides what it means.
#define KW_SHADOWED(name, ...)                                                                     \
  template <class S> KW_FUNC auto kw_member_##name(S&& s, int) -> decltype((s.name)) {             \
    return (s.name);                                                                               \
  }                                                                                                \
  template <class S> KW_FUNC auto kw_member_##name(S&& s, long) {                                  \
    return s.template kw_read<__VA_ARGS__>();                                                      \
  }                                                                                                \
  template <class S> KW_FUNC auto kw_place_##name(S&& s, int) -> decltype((s.name)) {              \
    return (s.name);                                                                               \
  }                                                                                                \
  template <class S> KW_FUNC auto kw_place_##name(S&& s, long) {                                   \
    return s.template kw_write<__VA_ARGS__>();                                                     \
  }

// The components, with Metal's alignment: three take the room of four.
template <class T, int N> struct components;
template <class T> struct alignas(2 * sizeof(T)) components<T, 2> {
  union {
    struct { T x, y; };
    struct { T r, g; };
    T kw_data[2];
  };
};
template <class T> struct alignas(4 * sizeof(T)) components<T, 3> {
  union {
    struct { T x, y, z; };
    struct { T r, g, b; };
    T kw_data[4];
  };
};
template <class T> struct alignas(4 * sizeof(T)) components<T, 4> {
  union {
    struct { T x, y, z, w; };
    struct { T r, g, b, a; };
    T kw_data[4];
  };
};

template <class T, int N> struct vec : components<T, N> {
  using value_type = T;
  vec() = default;
  template <class S, class = enable_if_t<is_scalar_v<S>>> KW_FUNC vec(S s) {
#pragma unroll
    for (int i = 0; i < N; i++) this->kw_data[i] = T(s);
  }
  template <class U, class = enable_if_t<!is_same_v<T, U>>> KW_FUNC explicit vec(const vec<U, N>& o) {
#pragma unroll
    for (int i = 0; i < N; i++) this->kw_data[i] = T(o[i]);
  }
  template <class A, class B, class... Rest> KW_FUNC vec(const A& a, const B& b, const Rest&... rest) {
    static_assert(count_v<A> + count_v<B> + (0 + ... + count_v<Rest>) == N,
                  "the components do not add up to the vector's size");
    int n = 0;
    put(n, a);
    put(n, b);
    (put(n, rest), ...);
  }
  KW_FUNC T& operator[](int i) { return this->kw_data[i]; }
  KW_FUNC const T& operator[](int i) const { return this->kw_data[i]; }
  template <int... I> KW_FUNC vec<T, int(sizeof...(I))> kw_read() const {
    return vec<T, int(sizeof...(I))>(this->kw_data[I]...);
  }
  template <int... I> KW_FUNC swizzle_view<T, N, I...> kw_write() { return {*this}; }

 private:
  template <class A> KW_FUNC void put(int& n, const A& a) {
#pragma unroll
    for (int i = 0; i < count_v<A>; i++) this->kw_data[n++] = T(kw_at(a, i));
  }
};

#define KW_VECTORS(type)        \
  using type##2 = vec<type, 2>; \
  using type##3 = vec<type, 3>; \
  using type##4 = vec<type, 4>;
KW_VECTORS(bool)
KW_VECTORS(char)
KW_VECTORS(uchar)
KW_VECTORS(short)
KW_VECTORS(ushort)
KW_VECTORS(int)
KW_VECTORS(uint)
KW_VECTORS(long)
KW_VECTORS(ulong)
KW_VECTORS(half)
KW_VECTORS(bfloat)
KW_VECTORS(float)

template <class T, int N> struct packed_vec {
  T kw_data[N];
  packed_vec() = default;
  KW_FUNC packed_vec(const vec<T, N>& v) {
    for (int i = 0; i < N; i++) kw_data[i] = v[i];
  }
  KW_FUNC operator vec<T, N>() const {
    vec<T, N> v;
    for (int i = 0; i < N; i++) v[i] = kw_data[i];
    return v;
  }
  KW_FUNC T& operator[](int i) { return kw_data[i]; }
  KW_FUNC const T& operator[](int i) const { return kw_data[i]; }
};
#define KW_PACKED(type)                       \
  using packed_##type##2 = packed_vec<type, 2>; \
  using packed_##type##3 = packed_vec<type, 3>; \
  using packed_##type##4 = packed_vec<type, 4>;
KW_PACKED(float)
KW_PACKED(half)
KW_PACKED(bfloat)
KW_PACKED(int)
KW_PACKED(uint)
KW_PACKED(short)
KW_PACKED(ushort)
KW_PACKED(char)
KW_PACKED(uchar)

// vec op vec, vec op scalar, scalar op vec; the result keeps the vector's element type.
#define KW_VECTOR_OPERATOR(op)                                                                  \
  template <class T, int N> KW_FUNC vec<T, N> operator op(const vec<T, N>& a, const vec<T, N>& b) { \
    vec<T, N> r;                                                                                \
    _Pragma("unroll") for (int i = 0; i < N; i++) r[i] = T(a[i] op b[i]);                       \
    return r;                                                                                   \
  }                                                                                             \
  template <class T, int N, class S, class = enable_if_t<is_scalar_v<S>>>                       \
  KW_FUNC vec<T, N> operator op(const vec<T, N>& a, S b) { return a op vec<T, N>(b); }          \
  template <class T, int N, class S, class = enable_if_t<is_scalar_v<S>>>                       \
  KW_FUNC vec<T, N> operator op(S a, const vec<T, N>& b) { return vec<T, N>(a) op b; }          \
  template <class T, int N, class U> KW_FUNC vec<T, N>& operator op##=(vec<T, N>& a, const U& b) { \
    return a = a op b;                                                                          \
  }
KW_VECTOR_OPERATOR(+)
KW_VECTOR_OPERATOR(-)
KW_VECTOR_OPERATOR(*)
KW_VECTOR_OPERATOR(/)
KW_VECTOR_OPERATOR(%)
KW_VECTOR_OPERATOR(&)
KW_VECTOR_OPERATOR(|)
KW_VECTOR_OPERATOR(^)
KW_VECTOR_OPERATOR(<<)
KW_VECTOR_OPERATOR(>>)

#define KW_VECTOR_COMPARISON(op)                                                                   \
  template <class T, int N> KW_FUNC vec<bool, N> operator op(const vec<T, N>& a, const vec<T, N>& b) { \
    vec<bool, N> r;                                                                                \
    _Pragma("unroll") for (int i = 0; i < N; i++) r[i] = a[i] op b[i];                             \
    return r;                                                                                      \
  }                                                                                                \
  template <class T, int N, class S, class = enable_if_t<is_scalar_v<S>>>                          \
  KW_FUNC vec<bool, N> operator op(const vec<T, N>& a, S b) { return a op vec<T, N>(b); }          \
  template <class T, int N, class S, class = enable_if_t<is_scalar_v<S>>>                          \
  KW_FUNC vec<bool, N> operator op(S a, const vec<T, N>& b) { return vec<T, N>(a) op b; }
KW_VECTOR_COMPARISON(==)
KW_VECTOR_COMPARISON(!=)
KW_VECTOR_COMPARISON(<)
KW_VECTOR_COMPARISON(<=)
KW_VECTOR_COMPARISON(>)
KW_VECTOR_COMPARISON(>=)
KW_VECTOR_COMPARISON(&&)
KW_VECTOR_COMPARISON(||)

#define KW_VECTOR_UNARY(op)                                                 \
  template <class T, int N> KW_FUNC vec<T, N> operator op(const vec<T, N>& a) { \
    vec<T, N> r;                                                            \
    _Pragma("unroll") for (int i = 0; i < N; i++) r[i] = T(op a[i]);        \
    return r;                                                               \
  }
KW_VECTOR_UNARY(-)
KW_VECTOR_UNARY(~)
KW_VECTOR_UNARY(!)

template <class T, int C, int R> struct matrix {
  vec<T, R> columns[C];
  matrix() = default;
  KW_FUNC explicit matrix(T diagonal) {
    for (int c = 0; c < C; c++) {
      columns[c] = vec<T, R>(T(0));
      if (c < R) columns[c][c] = diagonal;
    }
  }
  template <class... V, class = enable_if_t<sizeof...(V) == C>>
  KW_FUNC matrix(const V&... v) : columns{vec<T, R>(v)...} {}
  KW_FUNC vec<T, R>& operator[](int c) { return columns[c]; }
  KW_FUNC const vec<T, R>& operator[](int c) const { return columns[c]; }
};
#define KW_MATRICES(type)                \
  using type##2x2 = matrix<type, 2, 2>; \
  using type##2x3 = matrix<type, 2, 3>; \
  using type##2x4 = matrix<type, 2, 4>; \
  using type##3x2 = matrix<type, 3, 2>; \
  using type##3x3 = matrix<type, 3, 3>; \
  using type##3x4 = matrix<type, 3, 4>; \
  using type##4x2 = matrix<type, 4, 2>; \
  using type##4x3 = matrix<type, 4, 3>; \
  using type##4x4 = matrix<type, 4, 4>;
KW_MATRICES(float)
KW_MATRICES(half)

template <class T, int C, int R> KW_FUNC vec<T, R> operator*(const matrix<T, C, R>& m, const vec<T, C>& v) {
  vec<T, R> r = m[0] * v[0];
  for (int c = 1; c < C; c++) r += m[c] * v[c];
  return r;
}
template <class T, int C, int R> KW_FUNC vec<T, C> operator*(const vec<T, R>& v, const matrix<T, C, R>& m) {
  vec<T, C> r;
  for (int c = 0; c < C; c++) {
    T s = T(0);
    for (int i = 0; i < R; i++) s = T(s + v[i] * m[c][i]);
    r[c] = s;
  }
  return r;
}
template <class T, int C, int K, int R>
KW_FUNC matrix<T, C, R> operator*(const matrix<T, K, R>& a, const matrix<T, C, K>& b) {
  matrix<T, C, R> r;
  for (int c = 0; c < C; c++) r[c] = a * b[c];
  return r;
}
template <class T, int C, int R> KW_FUNC matrix<T, R, C> transpose(const matrix<T, C, R>& m) {
  matrix<T, R, C> r;
  for (int c = 0; c < C; c++)
    for (int i = 0; i < R; i++) r[i][c] = m[c][i];
  return r;
}

// A fixed-size array by value, as <metal_array> has it.
template <class T, size_t N> struct array {
  T kw_data[N];
  KW_FUNC T& operator[](size_t i) { return kw_data[i]; }
  KW_FUNC const T& operator[](size_t i) const { return kw_data[i]; }
  KW_FUNC constexpr size_t size() const { return N; }
};

}  // namespace metal
