// What a user may ask for. One visit function per struct names every option once: the command line, the configuration
// written into the output folder and the check for unknown keys are all built on it.
#pragma once

#include <cstdint>
#include <string>

namespace parbuckle {

/// name: Hugging Face spelling, with hyphens. aliases: further spellings, separated by spaces.
struct OptionInfo {
  const char* name;
  const char* aliases;
  const char* help;
};

/// Budgets and machine. Sizes are text as people write it ("700MiB"); empty means: what is free, less a margin.
struct MemoryConfig {
  std::string host_memory;
  std::string nvme_path;
  std::string nvme;
  std::string device = "cpu";  // what computes: "cpu", or "emulated:memory=512MiB,link=1GB/s[,...]"
  std::string hardware;        // a Hardware file instead of measuring this machine
  std::int64_t threads = 0;    // compute threads; 0: as many as this process may use

  template <class Self, class Visit>
  static void visit(Self& c, Visit&& v) {
    v(
        OptionInfo{
            "host-memory",
            "",
            "budget of the whole process: peak resident memory from start to exit, as in 700MiB"},
        c.host_memory);
    v(OptionInfo{"nvme-path",
                 "offload-folder",
                 "folder on a drive for state that does not fit the memory budget"},
      c.nvme_path);
    v(OptionInfo{"nvme", "", "most bytes to use under --nvme-path"}, c.nvme);
    v(OptionInfo{"device",
                 "",
                 "what computes: cpu, or "
                 "emulated:memory=512MiB,link=1GB/s[,latency=20us][,duplex=shared]"
                 "[,speed=0.5][,cores=1] to try schedules of an accelerator"},
      c.device);
    v(OptionInfo{"hardware",
                 "",
                 "machine description written by `parbuckle probe`, instead of measuring"},
      c.hardware);
    v(OptionInfo{"threads", "", "compute threads (default: all this process may use)"}, c.threads);
  }
};

struct DataConfig {
  std::string prompt_field;  // with completion_field: two fields of a jsonl record
  std::string completion_field;
  std::int64_t max_length = 2048;
  bool packing = false;
  bool train_on_prompt = false;
  bool replace_invalid = false;  // U+FFFD for invalid UTF-8 instead of refusing the file

  template <class Self, class Visit>
  static void visit(Self& c, Visit&& v) {
    v(OptionInfo{"prompt-field", "", "jsonl field that holds the prompt (default: prompt)"},
      c.prompt_field);
    v(
        OptionInfo{
            "completion-field", "", "jsonl field that holds the completion (default: completion)"},
        c.completion_field);
    v(OptionInfo{"max-length",
                 "max-seq-length cutoff-len sequence-len seq-len",
                 "tokens a row may have; longer records are cut and counted"},
      c.max_length);
    v(
        OptionInfo{
            "packing", "sample-packing", "several records in one row, isolated from each other"},
        c.packing);
    v(OptionInfo{"train-on-prompt", "train-on-inputs", "score the prompt's tokens as well"},
      c.train_on_prompt);
    v(OptionInfo{"replace-invalid",
                 "",
                 "replace invalid UTF-8 by U+FFFD and count it, instead of refusing"},
      c.replace_invalid);
  }
};

struct TrainConfig {
  std::string model;
  std::string data;
  std::string eval_data;
  std::string output_dir;
  bool overwrite_output_dir = false;
  std::string dtype = "float32";
  std::string save_dtype = "float32";
  std::int64_t per_device_train_batch_size = 1;
  std::int64_t gradient_accumulation_steps = 8;
  double num_train_epochs = 3;
  std::int64_t max_steps = -1;
  double learning_rate = 1e-5;
  std::string lr_scheduler_type = "cosine";
  std::int64_t warmup_steps = -1;  // -1: from warmup_ratio
  double warmup_ratio = 0.1;
  bool warmup_from_zero = true;  // transformers' rule: the first step of a warm-up has rate 0
  double weight_decay = 0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1.0;
  std::int64_t seed = 42;
  bool shuffle = true;
  std::int64_t logging_steps = 10;
  std::int64_t eval_steps = 0;  // 0: only before and after
  std::int64_t per_device_eval_batch_size = 1;
  std::int64_t max_eval_rows = 0;  // 0: all
  std::string order;               // "", "layer-major", "micro-batch-major", or a group size
  std::string activations;         // "", "keep", "spill", "recompute"
  std::string optimizer_window;    // "", "after", "fused", "lazy"
  std::string optimizer_device;    // "", "auto", "device", "cpu"
  MemoryConfig memory;
  DataConfig dataset;

  template <class Self, class Visit>
  static void visit(Self& c, Visit&& v) {
    v(OptionInfo{"model",
                 "model-name-or-path model-name base-model",
                 "folder with config.json and safetensors, or with one GGUF file"},
      c.model);
    v(OptionInfo{"data", "dataset train-file", "training data: .jsonl or .txt"}, c.data);
    v(OptionInfo{"eval-data", "eval-file validation-file", "held-out data of the same form"},
      c.eval_data);
    v(OptionInfo{"output-dir",
                 "out-dir adapter-path",
                 "folder for the trained model, metrics and the resolved configuration"},
      c.output_dir);
    v(OptionInfo{"overwrite-output-dir", "", "replace an existing output folder"},
      c.overwrite_output_dir);
    v(OptionInfo{"dtype", "torch-dtype", "arithmetic: float32"}, c.dtype);
    v(OptionInfo{"save-dtype", "", "float32, bfloat16 or float16"}, c.save_dtype);
    v(OptionInfo{"per-device-train-batch-size",
                 "batch-size micro-batch-size batch",
                 "rows of a micro-batch"},
      c.per_device_train_batch_size);
    v(OptionInfo{"gradient-accumulation-steps",
                 "grad-accumulation-steps grad-accumulation",
                 "micro-batches of a step"},
      c.gradient_accumulation_steps);
    v(OptionInfo{"num-train-epochs", "num-epochs epochs", "passes over the data"},
      c.num_train_epochs);
    v(OptionInfo{"max-steps", "iters steps", "optimizer steps; overrides --num-train-epochs"},
      c.max_steps);
    v(OptionInfo{"learning-rate", "lr", "peak learning rate"}, c.learning_rate);
    v(OptionInfo{"lr-scheduler-type",
                 "lr-scheduler lr-schedule",
                 "constant, constant_with_warmup, linear or cosine"},
      c.lr_scheduler_type);
    v(OptionInfo{"warmup-steps", "", "steps of warm-up; overrides --warmup-ratio"}, c.warmup_steps);
    v(OptionInfo{"warmup-ratio", "", "share of all steps that warm up"}, c.warmup_ratio);
    v(OptionInfo{"warmup-from-zero",
                 "",
                 "true: step k of a warm-up of w has rate (k-1)/w, as in transformers; false: k/w"},
      c.warmup_from_zero);
    v(OptionInfo{"weight-decay", "", "decoupled decay of matrices; norms and biases have none"},
      c.weight_decay);
    v(OptionInfo{"adam-beta1", "beta-1", ""}, c.adam_beta1);
    v(OptionInfo{"adam-beta2", "beta-2", ""}, c.adam_beta2);
    v(OptionInfo{"adam-epsilon", "", ""}, c.adam_epsilon);
    v(OptionInfo{"max-grad-norm",
                 "gradient-clipping clip-grad-norm grad-clip",
                 "clip the global gradient norm to this; 0: no clipping"},
      c.max_grad_norm);
    v(OptionInfo{"seed", "random-state", "key of all randomness"}, c.seed);
    v(OptionInfo{"shuffle", "", "draw records in an order given by the seed; false: file order"},
      c.shuffle);
    v(OptionInfo{"logging-steps",
                 "steps-per-report log-every-n-steps",
                 "steps between printed lines; every step is in metrics.jsonl"},
      c.logging_steps);
    v(OptionInfo{"eval-steps",
                 "steps-per-eval eval-every-n-steps",
                 "steps between evaluations; 0: before and after only"},
      c.eval_steps);
    v(OptionInfo{"per-device-eval-batch-size", "", "rows of a micro-batch in evaluation"},
      c.per_device_eval_batch_size);
    v(OptionInfo{"max-eval-rows", "", "evaluate on the first rows only; 0: all"}, c.max_eval_rows);
    v(
        OptionInfo{
            "order",
            "",
            "force the loop order: layer-major, micro-batch-major, or micro-batches per visit"},
        c.order);
    v(OptionInfo{"activations", "", "force what happens to activations: keep, spill, recompute"},
      c.activations);
    v(OptionInfo{"optimizer-window", "", "force when the optimizer runs: after, fused, lazy"},
      c.optimizer_window);
    v(OptionInfo{"optimizer-device",
                 "",
                 "force where the optimizer runs beside a device: auto, device, cpu"},
      c.optimizer_device);
    MemoryConfig::visit(c.memory, v);
    DataConfig::visit(c.dataset, v);
  }
};

struct EvalConfig {
  std::string model;
  std::string data;
  std::int64_t per_device_eval_batch_size = 1;
  std::int64_t max_eval_rows = 0;
  MemoryConfig memory;
  DataConfig dataset;

  template <class Self, class Visit>
  static void visit(Self& c, Visit&& v) {
    v(OptionInfo{"model", "model-name-or-path model-name base-model", "model folder"}, c.model);
    v(OptionInfo{"data", "eval-data dataset", "held-out data: .jsonl or .txt"}, c.data);
    v(OptionInfo{"per-device-eval-batch-size", "batch-size", "rows of a micro-batch"},
      c.per_device_eval_batch_size);
    v(OptionInfo{"max-eval-rows", "", "the first rows only; 0: all"}, c.max_eval_rows);
    MemoryConfig::visit(c.memory, v);
    DataConfig::visit(c.dataset, v);
  }
};

struct GenerateConfig {
  std::string model;
  std::string prompt;
  std::int64_t max_new_tokens = 64;
  double temperature = 0;  // 0: greedy
  std::int64_t top_k = 0;  // 0: all
  double top_p = 1;
  std::int64_t seed = 42;
  bool ignore_eos = false;
  MemoryConfig memory;

  template <class Self, class Visit>
  static void visit(Self& c, Visit&& v) {
    v(OptionInfo{"model", "model-name-or-path model-name base-model", "model folder"}, c.model);
    v(OptionInfo{"prompt", "p", "text to continue"}, c.prompt);
    v(OptionInfo{"max-new-tokens", "max-tokens n-predict", "tokens to generate"}, c.max_new_tokens);
    v(OptionInfo{"temperature", "temp", "0: the likeliest token always"}, c.temperature);
    v(OptionInfo{"top-k", "", "sample among the k likeliest; 0: all"}, c.top_k);
    v(OptionInfo{"top-p", "", "sample among the likeliest that together have this probability"},
      c.top_p);
    v(OptionInfo{"seed", "", "key of the sampling"}, c.seed);
    v(OptionInfo{"ignore-eos", "", "go on after the end token"}, c.ignore_eos);
    MemoryConfig::visit(c.memory, v);
  }
};

struct TokenizeConfig {
  std::string model;
  std::string text;
  std::string data;  // instead of text: the first rows of a data set, as they would be trained on
  std::int64_t rows = 1;
  bool debug = false;
  bool no_special_tokens = false;
  DataConfig dataset;

  template <class Self, class Visit>
  static void visit(Self& c, Visit&& v) {
    v(OptionInfo{"model", "model-name-or-path", "model folder, or a tokenizer.json"}, c.model);
    v(OptionInfo{"text", "prompt", "text to encode"}, c.text);
    v(OptionInfo{"data", "dataset", "encode rows of this data set as training would"}, c.data);
    v(OptionInfo{"rows", "", "how many rows of --data"}, c.rows);
    v(OptionInfo{"debug", "", "show each token with its label"}, c.debug);
    v(OptionInfo{"no-special-tokens", "", "leave out what the post-processor adds"},
      c.no_special_tokens);
    DataConfig::visit(c.dataset, v);
  }
};

}  // namespace parbuckle
