// Predictions of a model exported by manifoldgp.predictor.onnx.export_onnx(model, "model.onnx"), in a loop at 1 kHz.
//
//   predict model.onnx 0.5 1.2             mean and std of every target at one point
//   predict model.onnx 0.5 1.2 --ticks 5000   the same point, once a millisecond: latencies and missed deadlines

#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// A model for one point at a time. Buffers are made once; predict() writes into them.
class Predictor {
 public:
  explicit Predictor(const std::string& path)
      : session_(environment_, path.c_str(), options()), memory_(Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeCPU)) {
    const Ort::TypeInfo input_type = session_.GetInputTypeInfo(0), output_type = session_.GetOutputTypeInfo(0);
    const auto input = input_type.GetTensorTypeAndShapeInfo();
    if (input.GetElementType() != ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE)
      throw std::runtime_error("The model is not in float64. Export it with dtype=\"float64\".");
    x_.resize(static_cast<size_t>(input.GetShape()[1]));
    std::vector<int64_t> shape = output_type.GetTensorTypeAndShapeInfo().GetShape();
    shape[0] = 1;
    const size_t targets = shape.size() == 1 ? 1 : static_cast<size_t>(shape[1]);
    mean_.resize(targets);
    std_.resize(targets);
    inputs_.push_back(tensor(x_, {1, static_cast<int64_t>(x_.size())}));
    outputs_.push_back(tensor(mean_, shape));
    outputs_.push_back(tensor(std_, shape));
  }

  void predict(const std::vector<double>& x) {
    if (x.size() != x_.size())
      throw std::runtime_error("The model has " + std::to_string(x_.size()) + " inputs, and " + std::to_string(x.size()) + " came.");
    std::copy(x.begin(), x.end(), x_.begin());
    const char* const input_names[] = {"X"};
    const char* const output_names[] = {"mean", "std"};
    session_.Run(run_options_, input_names, inputs_.data(), 1, output_names, outputs_.data(), 2);
  }

  const std::vector<double>& mean() const { return mean_; }
  const std::vector<double>& std() const { return std_; }

 private:
  static Ort::SessionOptions options() {
    Ort::SessionOptions options;
    options.SetIntraOpNumThreads(1);  // one thread, no pool to wake up
    options.SetInterOpNumThreads(1);
    options.SetGraphOptimizationLevel(GraphOptimizationLevel::ORT_ENABLE_ALL);
    return options;
  }

  Ort::Value tensor(std::vector<double>& values, const std::vector<int64_t>& shape) {
    return Ort::Value::CreateTensor<double>(memory_, values.data(), values.size(), shape.data(), shape.size());
  }

  Ort::Env environment_{ORT_LOGGING_LEVEL_WARNING, "manifoldgp"};
  Ort::Session session_;
  Ort::MemoryInfo memory_;
  Ort::RunOptions run_options_;
  std::vector<double> x_, mean_, std_;
  std::vector<Ort::Value> inputs_, outputs_;
};

// One prediction at every tick of a millisecond. Prints how long they took, and how many ended after the next tick.
void run_loop(Predictor& predictor, const std::vector<double>& x, int ticks) {
  using Clock = std::chrono::steady_clock;
  const auto period = std::chrono::milliseconds(1);
  std::vector<double> microseconds;
  microseconds.reserve(static_cast<size_t>(ticks));
  int missed = 0;
  auto tick = Clock::now() + period;
  for (int i = 0; i < ticks; ++i) {
    std::this_thread::sleep_until(tick);
    const auto begin = Clock::now();
    predictor.predict(x);
    const auto end = Clock::now();
    microseconds.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
    tick += period;
    if (end > tick) {
      ++missed;
      tick = end + period;  // what was missed is not made up for
    }
  }
  std::sort(microseconds.begin(), microseconds.end());
  const auto quantile = [&](double q) { return microseconds[static_cast<size_t>(q * (microseconds.size() - 1))]; };
  std::printf("prediction: median %.0f us, 99%% %.0f us, longest %.0f us; %d of %d deadlines missed\n", quantile(0.5), quantile(0.99),
              quantile(1.0), missed, ticks);
}

int main(int argc, char** argv) try {
  int ticks = 0;
  std::vector<double> x;
  for (int i = 2; i < argc; ++i) {
    if (std::string(argv[i]) == "--ticks" && i + 1 < argc)
      ticks = std::atoi(argv[++i]);
    else
      x.push_back(std::stod(argv[i]));
  }
  if (argc < 3) {
    std::fprintf(stderr, "usage: predict model.onnx x1 [x2 ...] [--ticks N]\n");
    return 2;
  }
  Predictor predictor(argv[1]);
  predictor.predict(x);
  for (size_t o = 0; o < predictor.mean().size(); ++o) std::printf("%.15g %.15g\n", predictor.mean()[o], predictor.std()[o]);
  if (ticks > 0) run_loop(predictor, x, ticks);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
